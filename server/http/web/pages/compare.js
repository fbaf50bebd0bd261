// The curves and the settings of several jobs beside each other.

import {call, repeat} from '../api.js';
import {Chart} from '../chart.js';
import {el, redraw, table} from '../dom.js';
import {figure, state} from '../format.js';
import {catchUp, Recorder} from '../recorder.js';

const MOST = 8;

export function show({main, signal, tell, rest}) {
  const ids = (rest[0] ?? '').split(/[ ,]+/).filter(id => /^\d+$/.test(id));
  const field = el('input', {id: 'ids', value: ids.join(', '), size: 40});
  const form = el('form', {class: 'actions', onsubmit: event => {
    event.preventDefault();
    location.hash = `#/compare/${field.value.replaceAll(/[ ,]+/g, ',')}`;
  }}, el('label', {for: 'ids'}, `ids of jobs, at most ${MOST}`), field,
                  el('button', {}, 'Compare'));
  main.append(el('h1', {}, 'Compare'), form);
  if (ids.length === 0) return;
  if (ids.length > MOST) {
    tell(new Error(`${ids.length} jobs are too many; at most ${MOST}`));
    return;
  }
  const charts = ['Training loss', 'Held-out loss', 'Samples per second'].map(
      name => new Chart(el('section', {class: 'card chart'}), name));
  const specs = el('div');
  main.append(el('div', {class: 'cards'}, charts.map(chart => chart.node)),
              el('h2', {}, 'Settings'), specs);
  signal.addEventListener('abort',
                          () => charts.forEach(chart => chart.destroy()));

  const recorders = ids.map(() => new Recorder());
  let late = null;
  const draw = () => late ??= setTimeout(() => {
    late = null;
    if (signal.aborted) return;
    const curves = points => recorders.map(
        (recorder, index) => ({name: `job ${ids[index]}`,
                               points: points(recorder)}));
    charts[0].draw(curves(recorder => recorder.loss));
    charts[1].draw(curves(recorder => recorder.heldOut.get('loss') ?? []));
    charts[2].draw(curves(recorder => recorder.speed));
  }, 250);
  // One look at all jobs, so that a job that works does not hide the error of
  // another.
  repeat(3, signal, async () => {
    const looks = await Promise.allSettled(ids.map(
        (id, index) => catchUp(id, recorders[index], signal, draw)));
    const failed = looks.find(look => look.status === 'rejected');
    if (failed !== undefined) throw failed.reason;
  }, tell);
  Promise.all(ids.map(id => call('JobService/GetJob', {id}, signal))).then(
      jobs => redraw(specs, specTable(jobs)), tell);
}

// Returns every setting by its path: {"training.sgd.momentum": "0.9"}.
function flat(value, path, found) {
  for (const [name, inner] of Object.entries(value)) {
    const at = path === '' ? name : `${path}.${name}`;
    const nested = inner !== null && typeof inner === 'object';
    if (nested && Object.keys(inner).length > 0) flat(inner, at, found);
    else found.set(at, nested ? 'set' : String(inner));
  }
  return found;
}

// Shows what differs first.
function specTable(jobs) {
  const specs = jobs.map(job => flat(job.spec, '', new Map()));
  const paths = [...new Set(specs.flatMap(spec => [...spec.keys()]))];
  const differs = path => new Set(specs.map(spec => spec.get(path))).size > 1;
  const rows = [...paths.filter(differs),
                ...paths.filter(path => !differs(path))];
  return [
    table('Results', [
      {title: 'job', of: job => job.id},
      {title: 'state', of: job => state(job.state)},
      {title: 'loss', number: true,
        of: job => figure(job.progress?.loss)},
      {title: 'held-out loss', number: true,
        of: job => figure(job.evaluation?.loss)},
      {title: 'accuracy', number: true,
        of: job => figure(job.evaluation?.accuracy)},
    ], jobs, 'none'),
    table('Settings, those that differ first', [
      {title: 'setting', of: path => differs(path) ?
        el('strong', {}, path) : path},
      ...jobs.map((job, index) => ({title: `job ${job.id}`,
                                    of: path => specs[index].get(path) ?? ''})),
    ], rows.slice(0, 300), 'none'),
  ];
}
