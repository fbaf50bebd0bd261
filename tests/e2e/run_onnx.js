// Runs an ONNX model in ONNX Runtime: node run_onnx.js MODULES MODEL < inputs.
// Inputs and outputs are JSON: {"name": {"type": "float32", "dims": [..],
// "data": [..]}}.
const [modules, model] = process.argv.slice(2);
const ort = require(`${modules}/onnxruntime-node`);
const read = () => JSON.parse(require('fs').readFileSync(0, 'utf8'));

async function main() {
  const session = await ort.InferenceSession.create(model);
  const feeds = {};
  for (const [name, tensor] of Object.entries(read())) {
    const data = tensor.type === 'int64' ? BigInt64Array.from(
                                               tensor.data.map(BigInt))
                                         : Float32Array.from(tensor.data);
    feeds[name] = new ort.Tensor(tensor.type, data, tensor.dims);
  }
  const results = {};
  for (const [name, tensor] of Object.entries(await session.run(feeds))) {
    results[name] = {
      type: tensor.type,
      dims: tensor.dims,
      data: Array.from(tensor.data, Number),
    };
  }
  console.log(JSON.stringify(results));
}
main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
