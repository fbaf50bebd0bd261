// Device time, bytes and energy by tenant, job or model.

import {all} from '../api.js';
import {el, redraw, save, table} from '../dom.js';
import {bytes, number, seconds} from '../format.js';

const MOST = 10000;  // rows in the file
const SHOWN = 1000;
const FIELDS = ['tenant', 'job_id', 'model', 'device_kind', 'activity',
                'device_seconds', 'byte_seconds', 'energy_joules',
                'metered_device_seconds'];

export function show({main, signal, tell}) {
  const by = el('select', {id: 'by'},
                ['TENANT', 'JOB', 'MODEL'].map(
                    name => el('option', {value: `BY_${name}`},
                               name.toLowerCase())));
  const since = el('input', {id: 'since', type: 'date'});
  const list = el('div');
  let rows = [];
  const csv = el('button', {type: 'button', onclick: () => save(
      'gpupool-usage.csv', 'text/csv', csvOf(rows))}, 'Save as CSV');
  main.append(el('h1', {}, 'Usage'),
              el('div', {class: 'actions'}, el('label', {for: 'by'}, 'by'), by,
                 el('label', {for: 'since'}, 'since'), since, csv),
              list);
  const look = async () => {
    const request = {grouping: by.value};
    if (since.value !== '') request.since = `${since.value}T00:00:00Z`;
    rows = await all('UsageService/GetUsage', 'rows', request, MOST, signal);
    redraw(list, usageTable(rows));
    tell(null);
  };
  by.addEventListener('change', () => look().catch(tell));
  since.addEventListener('change', () => look().catch(tell));
  look().catch(tell);
}

function usageTable(rows) {
  const rest = rows.length > SHOWN ?
    [el('p', {class: 'quiet'}, `the first ${SHOWN} rows; the file has more`)] :
    [];
  return [...rest, table('Usage', [
    {title: 'tenant', of: row => row.tenant},
    {title: 'job', of: row => Number(row.job_id) > 0 ? row.job_id : ''},
    {title: 'model', of: row => row.model},
    {title: 'kind', of: row => row.device_kind},
    {title: 'activity', of: row => row.activity.toLowerCase()},
    {title: 'device time', number: true,
      of: row => seconds(row.device_seconds)},
    {title: 'bytes on average', number: true,
      of: row => row.device_seconds > 0 ?
        bytes(Math.round(row.byte_seconds / row.device_seconds)) : ''},
    {title: 'energy', number: true,
      of: row => row.energy_joules === undefined ? 'not metered' :
        `${number(row.energy_joules / 3600)} Wh`},
  ], rows.slice(0, SHOWN), 'nothing was used')];
}

// A cell that a spreadsheet would take for a formula is given a quote.
function cell(value) {
  const text = String(value ?? '');
  const safe = /^[=+@\t\r-]/.test(text) && !/^-?[\d.]/.test(text) ?
      `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function csvOf(rows) {
  const lines = rows.map(row => FIELDS.map(name => cell(row[name])).join(','));
  return [FIELDS.join(','), ...lines].join('\r\n') + '\r\n';
}
