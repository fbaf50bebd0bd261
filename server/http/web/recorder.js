// Collects the events of a job as curves, lines and tables.

import {stream} from './api.js';

const STEPS = 20000;  // of a curve; beyond it every other point goes

function add(points, step, value) {
  const number = Number(value);
  if (!Number.isFinite(number)) return;
  // A later attempt begins again at its checkpoint.
  while (points.length > 0 && points.at(-1)[0] >= step) points.pop();
  points.push([step, number]);
  if (points.length > STEPS) {
    points.splice(0, points.length, ...points.filter((_, index) => index % 2));
  }
}

export class Recorder {
  constructor() {
    this.sequence = '0';  // of the last event taken
    this.loss = [];
    this.speed = [];
    this.heldOut = new Map();  // name of the figure to its points
    this.lines = [];
    this.states = [];
    this.checkpoints = [];
  }

  take(event) {
    if (event.caught_up !== undefined) return;
    this.sequence = event.sequence;
    if (event.progress) {
      const step = Number(event.progress.step);
      if (step > 0) add(this.loss, step, event.progress.loss);
      if (event.progress.samples_per_second > 0) {
        add(this.speed, step, event.progress.samples_per_second);
      }
    } else if (event.evaluation) {
      this.takeEvaluation(event.evaluation);
    } else if (event.log) {
      this.lines.push(event.log.text);
    } else if (event.state_change) {
      this.states.push(event);
    } else if (event.checkpoint) {
      this.checkpoints.push(event);
    }
  }

  takeEvaluation(evaluation) {
    const figures = {...evaluation.metrics, loss: evaluation.loss};
    if (evaluation.accuracy > 0) figures.accuracy = evaluation.accuracy;
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
}

// Follows the job until it ends or the signal aborts. A stream that breaks is
// taken up again after the last event.
export async function follow(id, recorder, signal, changed, tell) {
  while (!signal.aborted) {
    try {
      await stream('JobService/WatchJob',
                   {id, after_sequence: recorder.sequence}, event => {
                     recorder.take(event);
                     changed();
                   }, signal);
      return;
    } catch (error) {
      if (signal.aborted) return;
      if (error.code === 'NOT_FOUND') {
        tell(error);
        return;
      }
      await new Promise(resolve => setTimeout(resolve, 2000));
    }
  }
}
