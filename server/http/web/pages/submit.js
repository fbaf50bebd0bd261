// Plans and submits a job that is written as JSON.

import {callWithText} from '../api.js';
import {el, redraw, table} from '../dom.js';
import {bytes, clock, number} from '../format.js';

const EXAMPLE = {
  name: 'first',
  model: {
    input_shape: [1, 8, 8],
    layers: [{flatten: {}}, {dense: {units: 64}}, {relu: {}},
             {dense: {units: 10}}],
  },
  data: {dataset: 'digits'},
  training: {
    cross_entropy: {}, adam: {learning_rate: 0.001}, batch_size: 32, epochs: 10,
  },
};

export function show({main, tell}) {
  const text = el('textarea', {id: 'spec', spellcheck: 'false',
                               value: JSON.stringify(EXAMPLE, null, 2)});
  const answer = el('div', {'aria-live': 'polite'});
  const button = (name, act) => el('button', {type: 'button', onclick: async () => {
    tell(null);
    let spec;
    try {
      spec = JSON.parse(text.value);
    } catch (error) {
      tell(new Error(`the job is no JSON: ${error.message}`));
      return;
    }
    await act(spec).catch(tell);
  }}, name);
  // One id for each text, so that pressing twice submits once.
  let submitted = {};
  main.append(
      el('h1', {}, 'Submit a job'),
      el('label', {for: 'spec'}, 'JobSpec as JSON (fields as in job.proto)'), text,
      el('div', {class: 'actions'},
         button('Plan', async () => redraw(answer, planOf(await callWithText(
             'JobService/PlanJob', `{"advise":true,"spec":${text.value}}`)))),
         button('Submit', async spec => {
           if (submitted.text !== text.value) {
             submitted = {text: text.value, id: `web-${crypto.randomUUID?.() ??
                 [...crypto.getRandomValues(new Uint32Array(4))].join('-')}`};
           }
           const method = spec.array ? 'SubmitArray' : 'SubmitJob';
           const job = await callWithText(
               `JobService/${method}`,
               `{"request_id":"${submitted.id}","spec":${text.value}}`);
           location.hash = spec.array ? '#/jobs' : `#/job/${job.id}`;
         })),
      answer);
}

function planOf(told) {
  const start = told.start;
  return [
    el('h2', {}, 'Plan'),
    el('p', {}, `It needs ${bytes(told.plan.training.peak)} and has ` +
      `${number(told.plan.parameters)} parameters. ` + (
        Number(told.total_steps) > 0 ? `${number(told.total_steps)} steps. ` : '') +
      (start?.waits_for ? `It waits: ${start.waits_for}` :
       start?.time ? `It starts ${clock(start.time)}.` :
       start?.why_unknown ?? '')),
    table('Devices', [
      {title: 'device', of: device => device.device},
      {title: 'free', number: true, of: device => bytes(device.free_bytes)},
      {title: 'limit', number: true, of: device => bytes(device.limit_bytes)},
      {title: 'fits', of: device => device.fits_now ? 'now' :
        device.fits_ever ? 'later' : 'never'},
    ], told.devices, 'none'),
    el('ul', {}, [...told.advice, ...told.plan.warnings].map(
        text => el('li', {}, text))),
  ];
}
