// Milliseconds of one run of an ONNX model in ONNX Runtime.
//   node ort_infer.mjs MODULES MODEL.onnx SHAPE THREADS SECONDS
// MODULES is the node_modules folder that holds onnxruntime-node; SHAPE is
// that of the input, as 1x3x224x224. Prints {"ms": median}.
import {createRequire} from 'node:module';
import {performance} from 'node:perf_hooks';

const [modules, model, shapeText, threads, seconds] = process.argv.slice(2);
const ort = createRequire(modules + '/')('onnxruntime-node');

const shape = shapeText.split('x').map(Number);
const count = shape.reduce((a, b) => a * b, 1);
const data = Float32Array.from({length: count}, (_, i) => Math.sin(i));
const session = await ort.InferenceSession.create(model, {
  intraOpNumThreads: Number(threads),
  interOpNumThreads: 1,
  executionMode: 'sequential',
  graphOptimizationLevel: 'all',
  executionProviders: ['cpu'],
});
const feeds = {
  [session.inputNames[0]]: new ort.Tensor('float32', data, shape),
};
for (let i = 0; i < 3; ++i) await session.run(feeds);
const times = [];
const end = performance.now() + 1000 * Number(seconds);
while (performance.now() < end || times.length < 5) {
  const start = performance.now();
  await session.run(feeds);
  times.push(performance.now() - start);
}
times.sort((a, b) => a - b);
console.log(JSON.stringify({ms: times[times.length >> 1]}));
