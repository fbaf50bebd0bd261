// Profiles a running job and shows where its step spends the time.

import {stream} from '../api.js';
import {el, redraw, save, table} from '../dom.js';
import {bytes, number, percent} from '../format.js';

const STEPS = 5;
const ROWS = 30;

// Returns a section with a button that profiles the job.
export function profileSection(id, signal) {
  const result = el('div', {'aria-live': 'polite'});
  const button = el('button', {
    type: 'button',
    onclick: async () => {
      button.disabled = true;
      redraw(result, el('p', {}, `timing ${STEPS} steps`));
      try {
        result.replaceChildren(...shown(id, await traceOf(id, signal)));
      } catch (error) {
        redraw(result, el('p', {}, error.message));
      }
      button.disabled = false;
    },
  }, `Profile ${STEPS} steps`);
  return el('section', {}, el('h2', {}, 'Profile'), button, result);
}

async function traceOf(id, signal) {
  let binary = '';
  await stream('JobService/ProfileJob', {id, steps: STEPS}, message => {
    binary += atob(message.chunk);
  }, signal);
  return new TextDecoder().decode(
      Uint8Array.from(binary, letter => letter.charCodeAt(0)));
}

// Returns the sums of the trace by `key`, the largest time first.
function sums(events, key) {
  const rows = new Map();
  for (const event of events) {
    const name = key(event);
    const row = rows.get(name) ?? {name, calls: 0, time: 0, flops: 0, bytes: 0};
    row.calls += 1;
    row.time += event.dur;
    row.flops += event.args?.flops ?? 0;
    row.bytes += event.args?.bytes ?? 0;
    rows.set(name, row);
  }
  return [...rows.values()].sort((a, b) => b.time - a.time);
}

function shown(id, text) {
  const events = JSON.parse(text).traceEvents.filter(event => event.ph === 'X');
  const total = events.reduce((sum, event) => sum + event.dur, 0);
  const tableOf = (caption, rows) => table(caption, [
    {title: caption, of: row => row.name},
    {title: 'calls', number: true, of: row => number(row.calls)},
    {title: 'time', number: true, of: row => `${(row.time / 1000).toFixed(3)} ms`},
    {title: 'share', number: true, of: row => percent(row.time / total)},
    {title: 'GFLOP/s', number: true,
      of: row => number(row.flops / row.time / 1000, 3)},
    {title: 'bytes', number: true, of: row => bytes(row.bytes)},
  ], rows.slice(0, ROWS), 'no events');
  return [
    el('div', {class: 'actions'}, el('button', {
      type: 'button',
      onclick: () => save(`job-${id}-trace.json`, 'application/json', text),
    }, 'Save the trace for ui.perfetto.dev')),
    el('h3', {}, 'By operator'), tableOf('operator', sums(events, e => e.cat)),
    el('h3', {}, 'By layer'), tableOf('layer', sums(events, e => e.name)),
  ];
}
