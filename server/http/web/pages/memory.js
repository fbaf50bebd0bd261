// The memory of a device: blocks by owner, and the peaks.

import {call, repeat} from '../api.js';
import {colourOf} from '../colours.js';
import {el, facts, link, redraw, save, svg, table} from '../dom.js';
import {bytes, percent} from '../format.js';

const SEGMENTS = 64;  // drawn, the largest first
const BLOCKS = 5000;  // drawn

export function show({main, signal, tell, rest}) {
  const body = el('div');
  main.append(el('h1', {}, rest[0] ? `Memory of ${rest[0]}` : 'Memory'), body);
  if (!rest[0]) {
    repeat(3, signal, async () => {
      const {devices} = await call('DeviceService/ListDevices', {}, signal);
      redraw(body, overview(devices));
    }, tell);
    return;
  }
  const device = rest[0];
  const picture = el('div');
  const figures = el('div');
  body.append(
      el('div', {class: 'actions'},
         button('Empty the cache', () => call('DeviceService/EmptyCache', {device})),
         button('Reset the peaks', () => call('DeviceService/ResetPeak', {device})),
         button('Save the snapshot', async () => save(
             `${device.replace(':', '-')}-memory.json`, 'application/json',
             JSON.stringify(await call('DeviceService/GetMemorySnapshot',
                                       {device}), null, 1)))),
      figures, el('h2', {}, 'Segments'), picture);

  function button(text, act) {
    return el('button', {type: 'button', onclick: () => act().then(
        () => tell(null), tell)}, text);
  }

  repeat(2, signal, async () => {
    const [stats, snapshot] = await Promise.all([
      call('DeviceService/GetMemoryStats', {device}, signal),
      call('DeviceService/GetMemorySnapshot', {device}, signal),
    ]);
    redraw(figures, figuresOf(stats));
    redraw(picture, pictureOf(snapshot, stats.owners.map(own => own.owner)));
  }, tell);
}

function overview(devices) {
  return table('Memory by device', [
    {title: 'device', of: device => link(`memory/${device.name}`, device.name)},
    {title: 'limit', number: true, of: device => bytes(device.limit_bytes)},
    {title: 'planned', number: true,
      of: device => bytes(device.committed_bytes)},
    {title: 'allocated', number: true,
      of: device => bytes(device.memory?.allocated_bytes ?? 0)},
    {title: 'reserved', number: true,
      of: device => bytes(device.memory?.reserved_bytes ?? 0)},
    {title: 'peak', number: true,
      of: device => bytes(device.memory?.peak_allocated_bytes ?? 0)},
    {title: 'fragmentation', number: true,
      of: device => percent(device.memory?.fragmentation ?? 0)},
  ], devices, 'no device');
}

function figuresOf(stats) {
  return [
    facts([
      ['limit', bytes(stats.limit_bytes)],
      ['allocated', bytes(stats.allocated_bytes)],
      ['peak of allocated', bytes(stats.peak_allocated_bytes)],
      ['reserved', bytes(stats.reserved_bytes)],
      ['peak of reserved', bytes(stats.peak_reserved_bytes)],
      ['fragmentation', percent(stats.fragmentation)],
      ['out of memory', stats.out_of_memory],
    ]),
    el('h2', {}, 'Owners'),
    table('Bytes by owner', [
      {title: 'owner', of: own => el('span', {},
          swatch(stats.owners.indexOf(own)), ' ', own.owner)},
      {title: 'bytes', number: true, of: own => bytes(own.bytes)},
    ], stats.owners, 'nobody holds memory'),
  ];
}

function swatch(index) {
  return svg('svg', {width: 12, height: 12, 'aria-hidden': 'true'},
             svg('rect', {width: 12, height: 12, fill: colourOf(index)}));
}

// Returns each segment as a bar as long as its bytes, cut into its blocks.
function pictureOf(snapshot, owners) {
  const segments = [...snapshot.segments].sort(
      (a, b) => Number(b.bytes) - Number(a.bytes));
  if (segments.length === 0) {
    return el('p', {class: 'quiet'}, 'no segment is reserved');
  }
  const drawn = segments.slice(0, SEGMENTS);
  const largest = Number(segments[0].bytes);
  const width = 900, height = 20;
  const most = Math.floor(BLOCKS / drawn.length);
  const bars = drawn.flatMap((segment, row) => segment.blocks.slice(
      0, most).map(block => {
    const text = `${block.free ? 'free' : block.owner}: ${bytes(block.bytes)}`;
    const attributes = {
      x: (width * Number(block.offset) / largest).toFixed(1),
      width: Math.max(0.5, width * Number(block.bytes) / largest).toFixed(1),
      y: row * (height + 4), height,
    };
    if (block.free) attributes.class = 'owner-free';
    else attributes.fill = colourOf(owners.indexOf(block.owner));
    return svg('rect', attributes, svg('title', {}, text));
  }));
  return [
    svg('svg', {class: 'picture', role: 'img',
                viewBox: `0 0 ${width} ${drawn.length * (height + 4)}`,
                'aria-label': `${segments.length} segments, the largest of ` +
                  `${bytes(largest)}; the table of owners has the numbers`},
        bars),
    el('p', {class: 'quiet'}, (segments.length > SEGMENTS ?
      `the largest ${SEGMENTS} of ${segments.length} segments` :
      `${segments.length} segments`) +
      (drawn.some(segment => segment.blocks.length > most) ?
        `, the first ${most} blocks of each` : '')),
  ];
}
