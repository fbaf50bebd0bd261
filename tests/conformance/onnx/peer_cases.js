// Runs models in ONNX Runtime, for peer_cases.py: node peer_cases.js MODULES <
// list. The list is JSON, [{"name", "model", "inputs": {"x": {"type", "dims",
// "data"}}}, ...], and so is what is printed: outputs, or an error, by name.
// Data are the bytes in base64.
const [modules] = process.argv.slice(2);
const ort = require(`${modules}/onnxruntime-node`);
const arrays = {
  float32: Float32Array,
  float64: Float64Array,
  int64: BigInt64Array,
  int32: Int32Array,
  uint8: Uint8Array,
  int8: Int8Array,
  bool: Uint8Array,
};

function read({type, dims, data}) {
  const bytes = Buffer.from(data, 'base64');
  const copy = bytes.buffer.slice(
      bytes.byteOffset, bytes.byteOffset + bytes.length);
  return new ort.Tensor(type, new arrays[type](copy), dims);
}

function write({type, dims, data}) {
  if (type === 'string') return {type, dims, data: ''};
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  return {type, dims, data: bytes.toString('base64')};
}

async function run(one) {
  const session = await ort.InferenceSession.create(
      one.model, {graphOptimizationLevel: 'disabled', logSeverityLevel: 4});
  const feeds = {};
  for (const [name, x] of Object.entries(one.inputs)) feeds[name] = read(x);
  const outputs = {};
  for (const [name, y] of Object.entries(await session.run(feeds))) {
    outputs[name] = write(y);
  }
  return outputs;
}

async function main() {
  const results = {};
  for (const one of JSON.parse(require('fs').readFileSync(0, 'utf8'))) {
    results[one.name] =
        await run(one).catch((error) => ({error: String(error.message)}));
  }
  process.stdout.write(JSON.stringify(results));
}
main();
