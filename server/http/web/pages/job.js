// One job: curves, log, attempts, plan, memory, profile and what can be done.

import {call, repeat} from '../api.js';
import {Chart} from '../chart.js';
import {el, facts, link, redraw, table} from '../dom.js';
import {bytes, clock, figure, isOver, number, percent, seconds, state}
  from '../format.js';
import {catchUp, Recorder} from '../recorder.js';
import {profileSection} from './profile.js';

export const section = 'jobs';

export function show({main, signal, tell, rest}) {
  const id = rest[0];
  const title = el('h1', {}, `Job ${id}`);
  const actions = el('div', {class: 'actions'});
  const summary = el('section', {class: 'card'});
  const charts = [
    'Loss', 'Metrics', 'Samples per second', 'Learning rate',
  ].map(name => new Chart(el('section', {class: 'card chart'}), name));
  const log = el('pre', {class: 'log', tabindex: 0, 'aria-label': 'Log'});
  const history = el('div');
  const checkpoints = el('div');
  const memory = el('div');
  const why = el('div');
  main.append(
      title, actions, summary, why, el('h2', {}, 'Curves'),
      el('div', {class: 'cards'}, charts.map(chart => chart.node)),
      el('h2', {}, 'Log'), log, el('h2', {}, 'States'), history,
      el('h2', {}, 'Checkpoints'), checkpoints,
      el('h2', {}, 'Plan and memory'), memory,
      profileSection(id, signal));
  signal.addEventListener('abort',
                          () => charts.forEach(chart => chart.destroy()));

  const recorder = new Recorder();
  let late = null;
  repeat(1, signal, () => catchUp(id, recorder, signal, () => {
    // Many events come at once; draw at most four times a second.
    late ??= setTimeout(() => {
      late = null;
      if (signal.aborted) return;
      charts[0].draw(recorder.losses());
      charts[1].draw(recorder.metrics());
      charts[2].draw(recorder.speeds());
      charts[3].draw(recorder.rates());
      showLog(log, recorder.lines);
      redraw(history, historyTable(recorder.states));
      redraw(checkpoints, checkpointTable(recorder.checkpoints));
    }, 250);
  }), tell);

  let shown = '';
  repeat(2, signal, async () => {
    const job = await call('JobService/GetJob', {id}, signal);
    title.replaceChildren(`Job ${id}: ${job.spec.name} `, state(job.state));
    redraw(summary, summaryOf(job));
    redraw(memory, memoryOf(job));
    const kinds = `${job.state} ${job.held}`;
    if (kinds !== shown) {
      shown = kinds;
      actions.replaceChildren(...buttons(job, tell));
    }
    redraw(why, job.state === 'QUEUED' && !job.held ?
        explanation(await call('JobService/ExplainJob', {id}, signal)) : []);
  }, tell);
}

function buttons(job, tell) {
  const make = (text, method, question) => el('button', {
    type: 'button',
    onclick: async event => {
      if (question !== null && !confirm(question)) return;
      event.target.disabled = true;
      await call(`JobService/${method}`, {id: job.id}).then(
          () => tell(null), tell);
      event.target.disabled = false;
    },
  }, text);
  const made = [el('a', {href: `#/compare/${job.id}`}, 'Compare')];
  if (isOver(job)) return made;
  made.unshift(make('Cancel', 'CancelJob', `Cancel job ${job.id}?`));
  made.unshift(make('Requeue', 'RequeueJob', null));
  made.unshift(job.held ? make('Release', 'ReleaseJob', null) :
                          make('Hold', 'HoldJob', null));
  return made;
}

function summaryOf(job) {
  const progress = job.progress;
  const total = Number(progress?.total_steps ?? 0);
  const share = total === 0 ? 0 : Number(progress.step) / total;
  const bar = el('progress', {max: 1, value: share, 'aria-label': 'progress'});
  return [total === 0 ? el('span') : bar, facts([
    ['step', total === 0 ? '' :
      `${number(progress.step)} of ${number(total)} (${percent(share)})`],
    ['time left', progress?.seconds_left > 0 && !isOver(job) ?
      seconds(progress.seconds_left) : ''],
    ['waits for', job.waiting_reason],
    ['error', job.error?.message],
    ['remedy', job.error?.hint],
    ['devices', job.devices.join(', ')],
    ['attempt', job.attempt || ''],
    ['tenant', job.spec.tenant || 'default'],
    ['priority', String(job.spec.priority)],
    ['data set', job.spec.data?.synthetic ? 'synthetic' : job.spec.data?.dataset],
    ['submitted', clock(job.create_time)],
    ['started', clock(job.start_time)],
    ['ended', clock(job.end_time)],
    ['ran for', job.run_seconds > 0 ? seconds(job.run_seconds) : ''],
    ['array', job.array_id > 0 ? `${job.array_id}, task ${job.array_index}` : ''],
    ['skipped steps', Number(progress?.skipped_steps ?? 0) || ''],
  ])];
}

function explanation(told) {
  return [
    el('h2', {}, 'Why it waits'),
    el('p', {}, told.waits_for),
    el('ul', {}, told.changes.map(change => el('li', {}, change))),
    table('Devices that it could use', [
      {title: 'device', of: device => device.name},
      {title: 'free', number: true, of: device => bytes(device.free_bytes)},
      {title: 'obstacle', of: device => device.obstacle || 'none'},
      {title: 'jobs', of: device => device.job_ids.join(', ')},
    ], told.devices, 'none'),
  ];
}

function showLog(log, lines) {
  const atEnd = log.scrollTop + log.clientHeight >= log.scrollHeight - 8;
  const text = lines.join('\n') || 'no lines yet';
  if (log.textContent === text) return;
  log.textContent = text;
  if (atEnd) log.scrollTop = log.scrollHeight;
}

function historyTable(changes) {
  return table('States of the job', [
    {title: 'time', of: event => clock(event.time)},
    {title: 'attempt', number: true, of: event => event.attempt},
    {title: 'state', of: event => state(event.state_change.to)},
    {title: 'reason', of: event => event.state_change.error?.message ??
      event.state_change.reason},
  ], changes, 'none yet');
}

function checkpointTable(events) {
  return table('Checkpoints', [
    {title: 'step', number: true, of: event => number(event.checkpoint.step)},
    {title: 'time', of: event => clock(event.time)},
    {title: 'size', number: true, of: event => bytes(event.checkpoint.bytes)},
    {title: 'held-out loss', number: true,
      of: event => figure(event.checkpoint.held_out_loss)},
    {title: 'training paused', number: true,
      of: event => seconds(event.checkpoint.save_seconds)},
  ], events, 'none yet');
}

const CLASSES = ['weights', 'optimizer', 'gradients', 'activations', 'workspace',
                 'next_batch'];

function memoryOf(job) {
  const planned = job.plan?.training;
  if (!planned) return el('p', {class: 'quiet'}, 'not planned yet');
  const peak = Number(planned.peak);
  const rows = CLASSES.filter(name => Number(planned[name]) > 0);
  return [
    facts([
      ['planned peak', bytes(peak)],
      ['measured peak', Number(job.memory?.measured_peak_bytes ?? 0) > 0 ?
        bytes(job.memory.measured_peak_bytes) : 'not measured yet'],
      ['parameters', number(job.plan.parameters)],
      ['FLOPs of a step', number(job.plan.training_flops_per_step)],
    ]),
    table('Planned bytes by class', [
      {title: 'class', of: name => name.replace('_', ' ')},
      {title: 'bytes', number: true, of: name => bytes(planned[name])},
      {title: 'share of the peak', of: name => el('meter', {
        min: 0, max: peak, value: planned[name], 'aria-label': name})},
    ], rows, 'none'),
  ];
}
