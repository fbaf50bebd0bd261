// Collects the events of a job as curves, lines and tables.

import {stream} from './api.js';

const POINTS = 20000;  // of a curve
const LINES = 1000;    // of the log
const ROWS = 200;      // of a table

function add(points, step, value) {
  const number = Number(value);
  if (!Number.isFinite(number)) return;
  // A later attempt begins again at its checkpoint.
  while (points.length > 0 && points.at(-1)[0] >= step) points.pop();
  points.push([step, number]);
  if (points.length > POINTS) points.splice(0, points.length, ...thinned(points));
}

// Returns about half of the points, as far apart as each other, with both ends.
function thinned(points) {
  const least = 2 * (points.at(-1)[0] - points[0][0]) / POINTS;
  let kept = -Infinity;
  return points.filter(([step], index) => {
    const keep = index === points.length - 1 || step - kept >= least;
    if (keep) kept = step;
    return keep;
  });
}

// Keeps the last rows.
function addRow(rows, row, most) {
  rows.push(row);
  if (rows.length > most) rows.shift();
}

export class Recorder {
  constructor() {
    this.sequence = '0';  // of the last event taken
    this.loss = [];
    this.speed = [];
    this.rate = [];
    this.heldOut = new Map();  // name of the figure to its points
    this.lines = [];
    this.states = [];
    this.checkpoints = [];
  }

  take(event) {
    this.sequence = event.sequence;
    if (event.progress) {
      const step = Number(event.progress.step);
      if (step > 0) add(this.loss, step, event.progress.loss);
      if (event.progress.samples_per_second !== undefined) {
        add(this.speed, step, event.progress.samples_per_second);
      }
      if (event.progress.learning_rate !== undefined) {
        add(this.rate, step, event.progress.learning_rate);
      }
    } else if (event.evaluation) {
      this.takeEvaluation(event.evaluation);
    } else if (event.log) {
      addRow(this.lines, event.log.text, LINES);
    } else if (event.state_change) {
      addRow(this.states, event, ROWS);
    } else if (event.checkpoint) {
      addRow(this.checkpoints, event, ROWS);
    }
  }

  takeEvaluation(evaluation) {
    const figures = {...evaluation.metrics, loss: evaluation.loss};
    // What an evaluation does not have is absent; 0 is a result.
    if (evaluation.accuracy !== undefined) {
      figures.accuracy = evaluation.accuracy;
    }
    if (evaluation.top_k_accuracy !== undefined) {
      figures['top-k accuracy'] = evaluation.top_k_accuracy;
    }
    for (const [name, value] of Object.entries(figures)) {
      if (!this.heldOut.has(name)) this.heldOut.set(name, []);
      add(this.heldOut.get(name), Number(evaluation.step), value);
    }
  }

  losses() {
    return [{name: 'training', points: this.loss},
            {name: 'held out', points: this.heldOut.get('loss') ?? []}];
  }

  metrics() {
    return [...this.heldOut].filter(([name]) => name !== 'loss').map(
        ([name, points]) => ({name, points}));
  }

  speeds() {
    return [{name: 'samples/s', points: this.speed}];
  }

  rates() {
    return [{name: 'learning rate', points: this.rate}];
  }
}

// Takes in the events since the last one. A page must not wait for more on an
// open stream, because browsers open only six connections to a server.
export async function catchUp(id, recorder, signal, changed) {
  const request = {id, after_sequence: recorder.sequence, mark_caught_up: true};
  await stream('JobService/WatchJob', request, event => {
    if (event.caught_up !== undefined) return false;
    recorder.take(event);
    changed();
    return true;
  }, signal);
}
