// The devices, who runs where, and what waits.

import {all, call, repeat} from '../api.js';
import {el, facts, link, redraw, svg, table} from '../dom.js';
import {bytes, clock, date, percent, seconds, state} from '../format.js';

const HOUR = 3600 * 1000;
const LISTED = 200;  // rows of the queue and of the past hour

export function show({main, signal, tell}) {
  const devices = el('div', {class: 'cards'});
  const queue = el('div');
  const past = el('div');
  main.append(el('h1', {}, 'Pool'), devices, el('h2', {}, 'Queue'), queue,
              el('h2', {}, 'The last hour'), past);
  repeat(2, signal, async () => {
    const [pool, waiting, recent] = await Promise.all([
      call('DeviceService/ListDevices', {}, signal),
      all('JobService/ListJobs', 'jobs', {states: ['QUEUED', 'BACKING_OFF']},
          LISTED, signal),
      all('JobService/ListJobs', 'jobs', {}, LISTED, signal),
    ]);
    redraw(devices, pool.devices.map(card));
    redraw(queue, queueTable(waiting), waiting.length < LISTED ? '' :
        el('p', {class: 'quiet'}, `the newest ${LISTED} that wait; `,
           link('jobs', 'all jobs')));
    redraw(past, timeline(pool.devices, recent));
  }, tell);
}

function card(device) {
  const memory = device.memory;
  const limit = Number(device.limit_bytes) * (device.memory_fraction || 1);
  const gpu = device.readings;
  return el(
      'section', {class: 'card'},
      el('h3', {}, device.name, ' ', state(device.state)),
      el('p', {class: 'quiet'}, device.description),
      el('label', {}, `memory: ${bytes(device.committed_bytes)} planned of `,
         bytes(limit),
         el('meter', {min: 0, max: limit, value: device.committed_bytes})),
      el('label', {}, `utilization: ${percent(device.utilization)}`,
         el('meter', {min: 0, max: 1, value: device.utilization})),
      facts([
        ['allocated', memory ? bytes(memory.allocated_bytes) : ''],
        ['jobs', device.job_ids.length > 0 ? listed(
            device.job_ids.map(id => link(`job/${id}`, id))) : ''],
        ['models', device.versions.join(', ')],
        ['temperature', gpu?.temperature_celsius !== undefined ?
          `${gpu.temperature_celsius} °C` : ''],
        ['power', gpu?.power_watts !== undefined ?
          `${Math.round(gpu.power_watts)} W` : ''],
        ['why', device.state_reason],
        ['cools down until', clock(device.cools_until)],
        ['drained', device.drain?.reason],
      ]),
      link(`memory/${device.name}`, 'memory by owner'));
}

function listed(nodes) {
  return el('span', {}, nodes.flatMap((node, index) =>
      index === 0 ? [node] : [', ', node]));
}

function queueTable(jobs) {
  const caption = 'Jobs that wait, newest first';
  return table(caption, [
    {title: 'job', of: job => link(`job/${job.id}`, job.id)},
    {title: 'name', of: job => job.spec.name},
    {title: 'tenant', of: job => job.spec.tenant || 'default'},
    {title: 'priority', number: true, of: job => job.spec.priority},
    {title: 'why it waits', of: job => job.held ? 'held' : job.waiting_reason},
    {title: 'predicted start', of: job => clock(job.predicted_start_time)},
  ], jobs, 'no job waits');
}

// Returns the devices as lanes and the last attempts of jobs as bars.
function timeline(devices, jobs) {
  const now = Date.now();
  const ran = jobs.filter(job => job.start_time &&
      (date(job.end_time)?.getTime() ?? now) > now - HOUR);
  if (ran.length === 0) return el('p', {class: 'quiet'}, 'nothing ran');
  const left = 90, width = 900, lane = 24;
  const names = devices.map(device => device.name);
  const at = time => left + (width - left) *
      Math.max(0, 1 - (now - time) / HOUR);
  const bars = ran.flatMap(job => job.devices.map(name => bar(job, name)));

  function bar(job, name) {
    const row = names.indexOf(name);
    if (row < 0) return null;
    const end = date(job.end_time)?.getTime() ?? now;
    const begin = Math.max(date(job.start_time).getTime(),
                           end - job.run_seconds * 1000);
    const from = at(begin);
    const text = `job ${job.id} ${job.spec.name}: ${job.state.toLowerCase()}, ` +
        seconds(job.run_seconds);
    return svg('a', {href: `#/job/${job.id}`, 'aria-label': text},
               svg('rect', {x: from.toFixed(0), y: row * lane + 3, rx: 3,
                            width: Math.max(2, at(end) - from).toFixed(0),
                            height: lane - 6, fill: 'var(--accent)'},
                   svg('title', {}, text)));
  }

  const lanes = names.map((name, row) =>
      svg('g', {},
          svg('text', {x: 0, y: row * lane + 16}, name),
          svg('line', {x1: left, x2: width, y1: (row + 1) * lane,
                       y2: (row + 1) * lane, stroke: 'var(--line)'})));
  return svg('svg', {class: 'picture', role: 'group',
                     viewBox: `0 0 ${width} ${names.length * lane + 18}`,
                     'aria-label': 'Jobs by device in the last hour'},
             lanes, bars.filter(node => node !== null),
             svg('text', {x: left, y: names.length * lane + 14}, '1 h ago'),
             svg('text', {x: width, y: names.length * lane + 14,
                          'text-anchor': 'end'}, 'now'));
}
