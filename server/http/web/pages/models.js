// The models and their versions, which can be loaded and unloaded. To roll back,
// load an older version.

import {all, call, repeat} from '../api.js';
import {el, link, redraw, table} from '../dom.js';
import {bytes, clock, state} from '../format.js';

export function show({main, signal, tell, rest}) {
  const list = el('div');
  main.append(el('h1', {}, rest[0] ? `Model ${rest[0]}` : 'Models'), list);
  const look = async () => {
    const models = rest[0] ?
        [await call('ModelService/GetModel', {name: rest[0]}, signal)] :
        await all('ModelService/ListModels', 'models', {}, 1000, signal);
    redraw(list, models.length === 0 ? el('p', {class: 'quiet'}, 'no model') :
        models.flatMap(model => section(model, Boolean(rest[0]))));
  };
  // Rows that are not drawn anew keep their buttons, so buttons name what they
  // act on themselves.
  list.addEventListener('click', async event => {
    const {method, model, version} = event.target.dataset ?? {};
    if (method === undefined) return;
    event.target.disabled = true;
    await call(`ModelService/${method}`, {model, version}).then(look).catch(tell);
    event.target.disabled = false;
  });
  repeat(3, signal, look, tell);
}

function button(text, method, row) {
  return el('button', {type: 'button', 'data-method': method,
                       'data-model': row.model, 'data-version': row.version},
            text);
}

function section(model, alone) {
  const newest = model.versions[0];
  return [
    alone ? null :
      el('h2', {}, link(`models/${encodeURIComponent(model.name)}`, model.name)),
    table(`Versions of ${model.name}`, [
      {title: 'version', number: true, of: row => row.version},
      {title: 'state', of: row => state(row.state)},
      {title: 'device', of: row => row.device},
      {title: 'from', of: row => Number(row.job_id) > 0 ?
        link(`job/${row.job_id}`, `job ${row.job_id}, step ${row.step}`) :
        'upload'},
      {title: 'made', of: row => clock(row.create_time)},
      {title: 'planned', number: true, of: row => row.plan?.inference ?
        bytes(row.plan.inference.peak) : ''},
      {title: 'batch', number: true,
        of: row => row.plan?.computes_alone ? 'alone' :
          row.serving?.max_batch_size || 'default'},
      {title: 'error', of: row => row.error},
      {title: '', of: row => ['READY', 'LOADING'].includes(row.state) ?
        button('Unload', 'UnloadVersion', row) :
        button(row.version === newest.version ? 'Load' : 'Load this one',
               'LoadVersion', row)},
    ], model.versions, 'no version'),
    alone && newest?.plan ? tensors(newest) : null,
  ];
}

function tensors(version) {
  const columns = [
    {title: 'name', of: tensor => tensor.name},
    {title: 'type', of: tensor => tensor.data_type.toLowerCase()},
    {title: 'shape', of: tensor => `[${tensor.shape.join(', ')}]`},
  ];
  return el('section', {}, el('h2', {}, `Version ${version.version}`),
            el('h3', {}, 'Inputs'),
            table('Inputs', columns, version.plan.inputs, 'none'),
            el('h3', {}, 'Outputs'),
            table('Outputs', columns, version.plan.outputs, 'none'),
            version.plan.warnings.length === 0 ? '' :
              el('ul', {}, version.plan.warnings.map(
                  warning => el('li', {}, warning))));
}
