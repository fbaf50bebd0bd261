// The list of jobs, with a filter by state, tenant and name.

import {call, repeat} from '../api.js';
import {el, link, redraw, table} from '../dom.js';
import {clock, figure, percent, state} from '../format.js';

const STATES = ['RUNNING', 'QUEUED', 'STARTING', 'BACKING_OFF', 'CANCELLING',
                'SUCCEEDED', 'FAILED', 'CANCELLED'];
const PAGE = 100;

export function show({main, signal, tell}) {
  const states = el('select', {id: 'state'}, el('option', {value: ''}, 'all'),
                    STATES.map(name => el('option', {value: name},
                                          name.toLowerCase())));
  const tenant = el('input', {id: 'tenant', size: 16});
  const name = el('input', {id: 'name', size: 16});
  const rows = el('div');
  const pages = [''];  // token of each page up to the one shown
  let next = '';
  const back = el('button', {type: 'button', onclick: () => turn(-1)}, 'newer');
  const on = el('button', {type: 'button', onclick: () => turn(1)}, 'older');
  for (const field of [states, tenant, name]) {
    field.addEventListener('change', () => {
      pages.splice(1);
      look().catch(tell);
    });
  }
  main.append(
      el('h1', {}, 'Jobs'),
      el('div', {class: 'actions'},
         el('label', {for: 'state'}, 'state'), states,
         el('label', {for: 'tenant'}, 'tenant'), tenant,
         el('label', {for: 'name'}, 'name'), name),
      rows, el('div', {class: 'actions'}, back, on));

  let asked = 0;  // looks so far; only the answer of the last one is shown

  async function turn(by) {
    back.disabled = on.disabled = true;
    if (by > 0) pages.push(next);
    else if (pages.length > 1) pages.pop();
    await look().catch(tell);
  }

  async function look() {
    const mine = ++asked;
    const answer = await call('JobService/ListJobs', {
      states: states.value === '' ? [] : [states.value],
      tenant: tenant.value, name: name.value,
      page_size: PAGE, page_token: pages.at(-1),
    }, signal);
    if (mine !== asked) return;
    next = answer.next_page_token;
    on.disabled = next === '';
    back.disabled = pages.length === 1;
    redraw(rows, listOf(answer.jobs));
  }

  repeat(3, signal, look, tell);
}

function listOf(jobs) {
  return table('Jobs, newest first', [
    {title: 'job', of: job => link(`job/${job.id}`, job.id)},
    {title: 'name', of: job => job.spec.name},
    {title: 'tenant', of: job => job.spec.tenant || 'default'},
    {title: 'state', of: job => state(job.state)},
    {title: 'devices', of: job => job.devices.join(', ')},
    {title: 'progress', number: true, of: progress},
    {title: 'loss', number: true, of: job => figure(job.progress?.loss)},
    {title: 'submitted', of: job => clock(job.create_time)},
  ], jobs, 'no such job');
}

function progress(job) {
  const total = Number(job.progress?.total_steps ?? 0);
  return total === 0 ? '' : percent(Number(job.progress.step) / total);
}
