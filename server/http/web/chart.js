// Draws curves over steps. Each chart has its last values as text for those who
// cannot see it. index.html loads uPlot, which is a global.

import {colourOf} from './colours.js';
import {el} from './dom.js';
import {number} from './format.js';

// Returns x and one row of y for each curve, with null where one has no point.
function joined(curves) {
  const steps = new Set();
  for (const curve of curves) curve.points.forEach(([x]) => steps.add(x));
  const x = [...steps].sort((a, b) => a - b);
  const rows = curves.map(curve => {
    const at = new Map(curve.points);
    return x.map(step => at.get(step) ?? null);
  });
  return [x, ...rows];
}

function css(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name);
}

export class Chart {
  // `node` becomes the chart. Curves are {name, points: [[step, value], ...]}.
  constructor(node, title) {
    this.node = node;
    this.title = title;
    this.names = '';
    this.plot = null;
    this.box = el('div', {role: 'img', 'aria-label': title});
    this.values = el('p', {class: 'quiet'});
    node.replaceChildren(el('h3', {}, title), this.box, this.values);
    this.sizes = new ResizeObserver(() => this.plot?.setSize(this.size()));
    this.sizes.observe(node);
  }

  size() {
    return {width: Math.max(240, this.node.clientWidth), height: 220};
  }

  draw(curves) {
    const shown = curves.filter(curve => curve.points.length > 0);
    const names = JSON.stringify(shown.map(curve => curve.name));
    if (names !== this.names) {
      this.names = names;
      this.plot?.destroy();
      this.plot = shown.length > 0 ? this.make(shown) : null;
    } else {
      this.plot?.setData(joined(shown));
    }
    const last = shown.map(curve => {
      const [step, value] = curve.points.at(-1);
      return `${curve.name}: ${number(value)} at step ${number(step)}`;
    });
    this.values.textContent = last.join('; ') || 'no points yet';
    this.box.setAttribute('aria-label', `${this.title}. ${last.join('; ')}`);
  }

  make(curves) {
    const axis = {stroke: css('--text'), grid: {stroke: css('--line'), width: 1},
                  ticks: {stroke: css('--line')}};
    return new uPlot({
      ...this.size(),
      scales: {x: {time: false}},
      axes: [axis, {...axis, size: 64}],
      series: [
        {label: 'step'},
        ...curves.map((curve, index) => ({
          label: curve.name, stroke: colourOf(index), width: 2, spanGaps: true,
          points: {show: curve.points.length < 3},
        })),
      ],
    }, joined(curves), this.box);
  }

  destroy() {
    this.sizes.disconnect();
    this.plot?.destroy();
  }
}
