// Numbers, times and states as people read them.

import {el} from './dom.js';

// Returns bytes with three digits and a binary unit: "1.50 GiB".
export function bytes(count) {
  let value = Number(count);
  if (value < 1024) return `${value} B`;
  const units = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
  let unit = -1;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    ++unit;
  }
  return `${value.toPrecision(value >= 1000 ? 4 : 3)} ${units[unit]}`;
}

export function number(value, digits = 4) {
  const exact = Number(value);
  if (!Number.isFinite(exact)) return String(value);
  return Number.isInteger(exact) ? exact.toLocaleString('en') :
                                   String(Number(exact.toPrecision(digits)));
}

// Returns a number that may be absent: '' stands for none.
export function figure(value) {
  return value === undefined ? '' : number(value);
}

export function percent(share) {
  return `${(100 * Number(share)).toFixed(0)} %`;
}

// Returns a length of time with its two largest units: "2 h 5 min".
export function seconds(length) {
  const total = Number(length);
  if (total < 1) return `${Math.round(total * 1000)} ms`;
  if (total < 60) return `${total.toFixed(total < 10 ? 1 : 0)} s`;
  const units = [['d', 86400], ['h', 3600], ['min', 60], ['s', 1]];
  const first = units.findIndex(([, size]) => total >= size);
  return units.slice(first, first + 2).map(([name, size], index) => {
    const rest = index === 0 ? total : total % units[first][1];
    return `${Math.floor(rest / size)} ${name}`;
  }).join(' ');
}

// Returns a time of the API as a date, or null when it is absent.
export function date(time) {
  return time ? new Date(time) : null;
}

export function clock(time) {
  const when = date(time);
  return when === null ? '' : when.toLocaleString('en-GB', {hour12: false});
}

const WORDS = {
  good: ['SUCCEEDED', 'RUNNING', 'READY'],
  bad: ['FAILED', 'LOST', 'QUARANTINED', 'LOAD_FAILED'],
};

// Returns the name of a state, coloured: "DEVICE_READY" becomes "ready".
export function state(name) {
  const word = name.replace(/^DEVICE_/, '');
  const kind = WORDS.good.includes(word) ? 'good' :
      WORDS.bad.includes(word) ? 'bad' : 'wait';
  return el('span', {class: `state ${kind}`},
            word.toLowerCase().replaceAll('_', ' '));
}

export function isOver(job) {
  return ['SUCCEEDED', 'FAILED', 'CANCELLED'].includes(job.state);
}
