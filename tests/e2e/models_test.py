#!/usr/bin/env python3
"""ONNX models through the real processes: upload, plan, inference, training,
export."""
import hashlib
import json
import pathlib
import subprocess
import sys
import threading
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError:
    onnx = None

MODULES = harness.ROOT / "build/peers/node_modules"
TYPES = {"FP32": "<f4", "INT64": "<i8", "BOOL": "?", "FP64": "<f8", "INT32": "<i4",
         "FP16": "<f2", "UINT16": "<u2", "INT16": "<i2", "UINT32": "<u4", "UINT64": "<u8"}


def make_model(nodes, inputs, outputs, weights, opset=17):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(*o) for o in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model


def bag_model():
    """Writes a model: ids and mask -> the masked sum of embeddings, and the count."""
    rng = np.random.default_rng(3)
    weights = {"table": rng.standard_normal((9, 5)).astype(np.float32),
               "axes": np.array([2], np.int64), "one": np.array([1], np.int64)}
    nodes = [
        helper.make_node("Gather", ["table", "ids"], ["rows"], name="gather"),
        helper.make_node("Unsqueeze", ["mask", "axes"], ["column"], name="column"),
        helper.make_node("Mul", ["rows", "column"], ["masked"], name="mask_rows"),
        helper.make_node("ReduceSum", ["masked", "one"], ["sum"], name="sum", keepdims=0),
        helper.make_node("Cast", ["mask"], ["whole"], name="cast", to=TensorProto.INT64),
        helper.make_node("ReduceSum", ["whole", "one"], ["count"], name="count",
                         keepdims=0),
    ]
    return make_model(
        nodes,
        [("ids", TensorProto.INT64, ["batch", 4]), ("mask", TensorProto.FLOAT, ["batch", 4])],
        [("sum", TensorProto.FLOAT, ["batch", 5]), ("count", TensorProto.INT64, ["batch"])],
        weights), weights["table"]


def integers_model():
    """Writes a model that doubles integers of 16 and 32 bits and repeats those of 64."""
    names = ("UINT16", "INT16", "UINT32", "UINT64")
    types = [getattr(TensorProto, name) for name in names]
    nodes = [helper.make_node("Add", [name, name], [f"twice_{name}"], name=name)
             for name in names[:3]]
    nodes.append(helper.make_node("Concat", ["UINT64", "UINT64"], ["twice_UINT64"],
                                  name="UINT64", axis=1))
    return make_model(
        nodes, [(name, type_, ["batch", 3]) for name, type_ in zip(names, types)],
        [(f"twice_{name}", type_, ["batch", width])
         for name, type_, width in zip(names, types, (3, 3, 3, 6))], {})


def digits_mlp(hidden=32, seed=5):
    """Writes an untrained classifier of 64 numbers."""
    rng = np.random.default_rng(seed)

    def weight(*shape):
        return (rng.uniform(-1, 1, shape) / np.sqrt(shape[-1])).astype(np.float32)
    weights = {"fc1.weight": weight(hidden, 64), "fc1.bias": weight(hidden),
               "fc2.weight": weight(10, hidden), "fc2.bias": weight(10)}
    nodes = [
        helper.make_node("Gemm", ["x", "fc1.weight", "fc1.bias"], ["h"], name="fc1", transB=1),
        helper.make_node("Relu", ["h"], ["r"], name="relu"),
        helper.make_node("Gemm", ["r", "fc2.weight", "fc2.bias"], ["logits"], name="fc2",
                         transB=1),
    ]
    return make_model(nodes, [("x", TensorProto.FLOAT, ["batch", 64])],
                      [("logits", TensorProto.FLOAT, ["batch", 10])], weights)


@unittest.skipIf(onnx is None, "python3-onnx and python3-numpy are not installed")
class Models(harness.TestCase):
    def save(self, server, model, name, **options):
        path = server.state / name
        onnx.save(model, str(path), **options)
        return path

    def infer(self, server, model, inputs, version=""):
        pb, rpc = harness.stubs()("inference.grpc_service")
        request = pb.ModelInferRequest(model_name=model, model_version=version)
        names = {np.dtype(form): name for name, form in TYPES.items()}
        for name, array in inputs.items():
            request.inputs.add(name=name, datatype=names[array.dtype], shape=array.shape)
            request.raw_input_contents.append(array.tobytes())
        with server.channel() as channel:
            answer = rpc.GRPCInferenceServiceStub(channel).ModelInfer(
                request, timeout=harness.PATIENCE)
        return {output.name: np.frombuffer(raw, TYPES[output.datatype]).reshape(output.shape)
                for output, raw in zip(answer.outputs, answer.raw_output_contents)}

    def check_bag(self, server, table):
        for rows in (1, 3, 8):
            rng = np.random.default_rng(rows)
            ids = rng.integers(0, 9, (rows, 4))
            mask = rng.integers(0, 2, (rows, 4)).astype(np.float32)
            answer = self.infer(server, "bag", {"mask": mask, "ids": ids})
            np.testing.assert_allclose(answer["sum"], (table[ids] * mask[..., None]).sum(1),
                                       rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(answer["count"], mask.sum(1).astype(np.int64))

    def test_several_inputs_and_types_also_after_a_restart(self):
        server = self.start("--devices", "cpu:1")
        model, table = bag_model()
        path = self.save(server, model, "bag.onnx")
        version = server.json("models", "upload", "bag", path, "--max-batch-size", "8")
        self.assertEqual("READY", version["state"], version)
        plan = server.json("models", "plan", path, "--max-batch-size", "8")["plan"]
        self.assertEqual(["ids", "mask"], [i["name"] for i in plan["inputs"]])
        self.assertEqual(["INT64", "FLOAT32"], [i["data_type"] for i in plan["inputs"]])
        self.assertEqual(["-1", "4"], plan["inputs"][0]["shape"])
        self.check_bag(server, table)
        server.kill()
        server.start()
        server.cli("models", "load", "bag", "--wait")
        self.check_bag(server, table)
        self.assertEqual(0, server.terminate())
        server.start()
        server.cli("models", "load", "bag", "--wait")
        self.check_bag(server, table)

    def test_integers_travel_in_the_types_of_the_file(self):
        import grpc
        server = self.start("--devices", "cpu:1")
        path = self.save(server, integers_model(), "integers.onnx")
        version = server.json("models", "upload", "integers", path)
        self.assertEqual("READY", version["state"], version)
        names = ["UINT16", "INT16", "UINT32", "UINT64"]
        self.assertEqual(names, [i["data_type"] for i in version["plan"]["inputs"]])
        self.assertEqual(names, [o["data_type"] for o in version["plan"]["outputs"]])
        inputs = {
            "UINT16": np.uint16([[0, 40000, 65535], [1, 2, 32767]]),
            "INT16": np.int16([[0, -1, -32768], [16384, 16383, 7]]),
            "UINT32": np.uint32([[0, 2**31, 2**32 - 1], [1, 2, 2**31 - 1]]),
            "UINT64": np.uint64([[0, 2**62, 2**63 - 1], [1, 2**53 + 1, 3]])}
        twice = {name: array + array for name, array in inputs.items()}
        twice["UINT64"] = np.concatenate([inputs["UINT64"]] * 2, axis=1)
        answer = self.infer(server, "integers", inputs)
        for name, array in inputs.items():
            self.assertEqual(array.dtype, answer[f"twice_{name}"].dtype)
            np.testing.assert_array_equal(twice[name], answer[f"twice_{name}"])
            np.save(server.state / f"{name}.npy", array)
        files = [word for name in names
                 for word in ("--input", f"{name}={server.state}/{name}.npy")]
        server.cli("models", "infer", "integers", *files, "--save", server.state / "out")
        for name, array in inputs.items():
            saved = np.load(server.state / "out" / f"twice_{name}.npy")
            self.assertEqual(array.dtype, saved.dtype)
            np.testing.assert_array_equal(twice[name], saved)
        for changed, words in (
                ({"UINT16": inputs["UINT16"].astype(np.int32)}, ("'INT32'", "'UINT16'")),
                ({"UINT64": np.uint64([[1, 2, 3], [4, 2**63, 6]])},
                 ("element 4 of input 'UINT64'", str(2**63)))):
            with self.assertRaises(grpc.RpcError) as caught:
                self.infer(server, "integers", {**inputs, **changed})
            self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT, caught.exception.code())
            for word in words:
                self.assertIn(word, caught.exception.details())

    def test_saved_outputs_are_listed_and_their_folder_is_made(self):
        server = self.start("--devices", "cpu:1")
        server.cli("models", "upload", "bag", self.save(server, bag_model()[0], "bag.onnx"))
        np.save(server.state / "ids.npy", np.zeros((2, 4), np.int64))
        np.save(server.state / "mask.npy", np.ones((2, 4), np.float32))
        folder = server.state / "new" / "outputs"
        inputs = ("--input", f"ids={server.state}/ids.npy",
                  "--input", f"mask={server.state}/mask.npy", "--save", folder)
        text = server.cli("models", "infer", "bag", *inputs, "--no-headers")
        rows = [line.split("\t") for line in text.splitlines()]
        self.assertEqual(["sum", "count"], [row[0] for row in rows])
        for name, _, shape, path in rows:
            self.assertEqual(f"{folder}/{name}.npy", path)
            self.assertEqual(shape, str(list(np.load(path).shape)).replace(" ", ""))
        saved = server.json("models", "infer", "bag", *inputs)["saved"]
        self.assertEqual(["sum", "count"], [one["output"] for one in saved])

    def test_a_wrong_type_or_shape_is_refused_by_name(self):
        import grpc
        server = self.start("--devices", "cpu:1")
        server.cli("models", "upload", "bag", self.save(server, bag_model()[0], "bag.onnx"))
        ids, mask = np.zeros((2, 4), np.int64), np.zeros((2, 4), np.float32)
        for inputs, word in (({"ids": ids, "mask": mask.astype(np.int64)}, "'FP32'"),
                             ({"ids": ids}, "expected 2 inputs"),
                             ({"ids": ids[:1], "mask": mask}, "rows"),
                             ({"ids": ids[:, :3], "mask": mask}, "[-1,4]")):
            with self.assertRaises(grpc.RpcError) as caught:
                self.infer(server, "bag", inputs)
            self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT, caught.exception.code())
            self.assertIn(word, caught.exception.details())

    def test_a_rollback_serves_the_older_version_without_a_gap(self):
        server = self.start("--devices", "cpu:1")
        rows = np.ones((1, 64), np.float32)
        logits = []
        for seed in (5, 6):
            path = self.save(server, digits_mlp(seed=seed), f"mlp{seed}.onnx")
            server.cli("models", "upload", "mlp", path)
            logits.append(self.infer(server, "mlp", {"x": rows})["logits"])
        self.assertFalse(np.array_equal(*logits))
        stop = threading.Event()
        answers, errors = [], []

        def ask():
            while not stop.is_set():
                try:
                    answers.append(self.infer(server, "mlp", {"x": rows})["logits"])
                except Exception as error:  # told by the test's own thread
                    errors.append(error)
                    return
        client = threading.Thread(target=ask)
        client.start()
        try:
            harness.wait_until(lambda: answers or errors, 60, "an answer")
            said = server.cli("models", "rollback", "mlp", "--wait")
        finally:
            stop.set()
            client.join()
        self.assertIn("mlp", said)
        self.assertEqual([], errors)
        np.testing.assert_array_equal(logits[0],
                                      self.infer(server, "mlp", {"x": rows})["logits"])
        states = {int(version["version"]): version["state"]
                  for version in server.json("models", "get", "mlp")["versions"]}
        self.assertEqual({1: "READY", 2: "UNLOADED"}, states)
        # There is none before the first, and the newest can come back.
        server.cli("models", "rollback", "mlp", code=6)
        server.cli("models", "load", "mlp", "--wait")
        np.testing.assert_array_equal(logits[1],
                                      self.infer(server, "mlp", {"x": rows})["logits"])

    def test_a_model_without_a_batch_answers_whole_tensors(self):
        server = self.start("--devices", "cpu:1")
        model = make_model([helper.make_node("Transpose", ["x"], ["y"], name="t")],
                           [("x", TensorProto.FLOAT, [2, 3])],
                           [("y", TensorProto.FLOAT, [3, 2])], {})
        path = self.save(server, model, "t.onnx")
        server.cli("models", "upload", "t", path, "--unbatched-input", "x")
        x = np.arange(6, dtype=np.float32).reshape(2, 3)
        np.testing.assert_array_equal(self.infer(server, "t", {"x": x})["y"], x.T)
        load = harness.stubs()
        pb, rpc = load("inference.grpc_service")
        with server.channel() as channel:
            config = rpc.GRPCInferenceServiceStub(channel).ModelConfig(
                pb.ModelConfigRequest(name="t"), timeout=harness.PATIENCE).config
        self.assertEqual(0, config.max_batch_size)
        self.assertEqual([2, 3], list(config.input[0].dims))

    def test_named_dimensions_get_their_sizes(self):
        server = self.start("--devices", "cpu:1")
        model = make_model([helper.make_node("Relu", ["x"], ["y"], name="r")],
                           [("x", TensorProto.FLOAT, ["batch", "sequence"])],
                           [("y", TensorProto.FLOAT, ["batch", "sequence"])], {})
        path = self.save(server, model, "r.onnx")
        error = server.cli("models", "upload", "r", path, code=2)
        self.assertIn("sequence", error)
        for option, value, names in (
                ("--dimension", "batch_size=4", "'batch', 'sequence'"),
                ("--unbatched-input", "X", "'x'"), ("--pad", "ids=0", "'x'")):
            error = server.cli("models", "upload", "r", path, "--dimension",
                               "sequence=6", option, value, code=2)
            self.assertIn(option, error)
            self.assertIn(f"'{value.split('=')[0]}'", error)
            self.assertIn(f"are: {names}", error)
        server.cli("models", "upload", "r", path, "--dimension", "sequence=6")
        x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(2, 6)
        np.testing.assert_array_equal(self.infer(server, "r", {"x": x})["y"],
                                      np.maximum(x, 0))

    def test_external_data_travel_with_the_model(self):
        server = self.start("--devices", "cpu:1")
        model, table = bag_model()
        path = self.save(server, model, "bag.onnx", save_as_external_data=True,
                         location="bag.data", size_threshold=0)
        self.assertTrue((server.state / "bag.data").exists())
        server.cli("models", "upload", "bag", path, "--max-batch-size", "8")
        self.check_bag(server, table)
        link = server.state / "links" / "link.onnx"
        link.parent.mkdir()
        link.symlink_to(path)
        server.cli("models", "check", link)
        exported = server.state / "whole.onnx"
        server.cli("models", "export", "bag", "-O", exported)
        (server.state / "bag.data").unlink()
        onnx.checker.check_model(str(exported))
        server.cli("models", "upload", "bag", exported, "--max-batch-size", "8")
        self.check_bag(server, table)
        error = server.cli("models", "upload", "gone", path, code=3)
        self.assertIn("bag.data", error)
        error = server.cli("models", "upload", "gone", link, code=3)
        self.assertIn("cp -rL", error)

    def test_all_unsupported_operators_are_listed(self):
        server = self.start("--devices", "cpu:1")
        graph = helper.make_graph(
            [helper.make_node("Swirl", ["x"], ["a"], name="first", domain="my.own"),
             helper.make_node("Relu", ["a"], ["b"], name="fine"),
             helper.make_node("Twirl", ["b"], ["y"], name="second", domain="my.own")],
            "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 2])])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17),
                                                        helper.make_opsetid("my.own", 1)])
        path = self.save(server, model, "odd.onnx")
        error = server.cli("models", "upload", "odd", path, code=1)
        for word in ("Swirl", "first", "Twirl", "second"):
            self.assertIn(word, error)
        self.assertNotIn("fine", error)
        (server.state / "noise.onnx").write_bytes(b"\x00\xff" * 500)
        server.cli("models", "upload", "noise", server.state / "noise.onnx", code=2)

    def test_a_check_says_what_plan_and_upload_say(self):
        server = self.start("--devices", "cpu:1")
        model, _ = bag_model()
        path = self.save(server, model, "bag.onnx")
        check = server.json("models", "check", path, "--max-batch-size", "8")
        plan = server.json("models", "plan", path, "--max-batch-size", "8")["plan"]
        self.assertEqual(plan["inference"]["peak"],
                         check["serving"]["plan"]["inference"]["peak"])
        self.assertEqual(plan["outputs"], check["serving"]["plan"]["outputs"])
        self.assertEqual("", check["training"].get("refused", ""))

        shape = ["n", 1 << 24]  # a row of 64 MiB
        wide = make_model([helper.make_node("Relu", ["x"], ["y"])],
                          [("x", TensorProto.FLOAT, shape)],
                          [("y", TensorProto.FLOAT, shape)], {})
        path = self.save(server, wide, "wide.onnx")
        check = subprocess.run([harness.BIN / "gpupool", "models", "check", path],
                               capture_output=True, text=True, timeout=harness.PATIENCE)
        self.assertEqual(1, check.returncode, check.stderr)
        error = server.cli("models", "upload", "wide", path, code=2)
        for text in (check.stdout, error):
            self.assertIn("start the server with --slot-bytes 134217728", text)

    def test_training_begins_with_the_weights_of_the_file(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        self.save(server, digits_mlp(), "mlp.onnx")
        job = server.wait_job(server.submit("""
name: tuned
model: {onnx: mlp.onnx}
data: {dataset: digits, held_out: {every: 5}, scaling: {multiply: 0.0625}}
training: {loss: cross_entropy, optimizer: adam, batch_size: 32, epochs: 30, seed: 1}
publish: {model: tuned, on_success: true}
"""))
        self.assertEqual("SUCCEEDED", job["state"], job)
        self.assertGreater(job["evaluation"]["accuracy"], 0.9)
        server.cli("models", "load", "tuned", "--wait")
        exported = server.state / "tuned.onnx"
        server.cli("models", "export", "tuned", "-O", exported)
        self.check_export(server, "tuned", exported, (64,), "x", "logits")

    def train_digits(self, server):
        job = server.wait_job(int(server.json(
            "submit", "examples/digits.yaml", "--data", harness.DIGITS)["id"]))
        self.assertEqual("SUCCEEDED", job["state"], job)
        server.cli("models", "load", "digits", "--wait")
        return job

    def check_export(self, server, model, path, example, input_name, output_name):
        """What was exported gives what is served: read back here, and in ONNX
        Runtime where it is installed."""
        onnx.checker.check_model(str(path), full_check=True)
        rng = np.random.default_rng(1)
        x = rng.uniform(0, 16, (5, *example)).astype(np.float32)
        served = self.infer(server, model, {input_name: x})[output_name]
        again = f"{model}-again"
        server.cli("models", "upload", again, path)
        ours = self.infer(server, again, {input_name: x})[output_name]
        np.testing.assert_allclose(ours, served, rtol=1e-4, atol=1e-5)
        if not (MODULES / "onnxruntime-node").exists():
            print("ONNX Runtime is not installed (./dev bench --peers): not compared",
                  file=sys.stderr)
            return
        feeds = {input_name: {"type": "float32", "dims": x.shape, "data": x.ravel().tolist()}}
        done = subprocess.run(
            ["node", harness.ROOT / "tests/e2e/run_onnx.js", MODULES, path],
            input=json.dumps(feeds), capture_output=True, text=True, timeout=harness.PATIENCE)
        self.assertEqual(0, done.returncode, done.stderr)
        peer = json.loads(done.stdout)[output_name]
        self.assertEqual(list(served.shape), peer["dims"])
        np.testing.assert_allclose(np.reshape(peer["data"], served.shape), served,
                                   rtol=1e-4, atol=1e-4)

    def test_an_exported_model_gives_the_same_results_elsewhere(self):
        server = self.start("--devices", "cpu:1")
        job = self.train_digits(server)
        exported = server.state / "digits.onnx"
        server.cli("models", "export", "digits", "-O", exported)
        names = [node.name for node in onnx.load(exported).graph.node]
        self.assertIn("conv2d_0", names)
        self.check_export(server, "digits", exported, (1, 8, 8), "input", "output")
        weights = server.state / "digits.safetensors"
        server.cli("models", "export", "digits/1", "-O", weights, "--format", "safetensors")
        self.assertEqual(server.weights_sha256(job),
                         hashlib.sha256(weights.read_bytes()).hexdigest())
        server.cli("models", "export", "nothing", "-O", server.state / "n", code=3)

    def test_a_model_in_training_mode_is_exported_for_inference(self):
        """ONNX Runtime would use the batch's statistics, and drop at random."""
        server = self.start("--devices", "cpu:1")
        rng = np.random.default_rng(4)
        weights = {name: rng.uniform(0.5, 2, 3).astype(np.float32)
                   for name in ("scale", "shift", "mean", "variance")}
        weights |= {"ratio": np.array(0.5, np.float32), "train": np.array(True)}
        nodes = [
            helper.make_node("BatchNormalization",
                             ["x", "scale", "shift", "mean", "variance"],
                             ["normed", "new_mean", "new_variance"], name="norm",
                             training_mode=1),
            helper.make_node("Dropout", ["normed", "ratio", "train"], ["kept"], name="drop"),
            helper.make_node("Add", ["kept", "new_mean"], ["y"], name="add")]
        model = make_model(nodes, [("x", TensorProto.FLOAT, ["batch", 3])],
                           [("y", TensorProto.FLOAT, ["batch", 3])], weights)
        server.cli("models", "upload", "norm", self.save(server, model, "norm.onnx"))
        exported = server.state / "exported.onnx"
        server.cli("models", "export", "norm", "-O", exported)
        nodes = {node.name: node for node in onnx.load(exported).graph.node}
        modes = [a.i for a in nodes["norm"].attribute if a.name == "training_mode"]
        self.assertEqual([0], modes)
        self.assertEqual(["normed"], list(nodes["norm"].output))
        self.assertEqual(["normed", "ratio"], list(nodes["drop"].input))
        self.check_export(server, "norm", exported, (3,), "x", "y")
        # What ONNX defines for the nodes that are in the file.
        x = rng.uniform(-1, 1, (4, 3)).astype(np.float32)
        y = ((x - weights["mean"]) / np.sqrt(weights["variance"] + 1e-5)
             * weights["scale"] + weights["shift"] + weights["mean"])
        np.testing.assert_allclose(self.infer(server, "norm", {"x": x})["y"], y, rtol=1e-4)

    def test_layers_with_uploaded_weights(self):
        server = self.start("--devices", "cpu:1")
        layers = server.state / "layers.yaml"
        layers.write_text("input_shape: [3]\nlayers: [{dense: {units: 2, name: out}}]\n"
                          .replace("{units: 2, name: out}", "{units: 2}"))
        weight = np.arange(6, dtype=np.float32).reshape(2, 3)
        bias = np.array([10, 20], np.float32)
        header = json.dumps({
            "dense_0.weight": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]},
            "dense_0.bias": {"dtype": "F32", "shape": [2], "data_offsets": [24, 32]},
        }).encode()
        path = server.state / "w.safetensors"
        path.write_bytes(len(header).to_bytes(8, "little") + header + weight.tobytes()
                         + bias.tobytes())
        server.cli("models", "upload", "plain", layers, "--weights", path)
        x = np.array([[1, 2, 3], [0, 1, 0]], np.float32)
        np.testing.assert_allclose(self.infer(server, "plain", {"input": x})["output"],
                                   x @ weight.T + bias)
        path.write_bytes(len(header).to_bytes(8, "little") + header + weight.tobytes())
        server.cli("models", "upload", "plain", layers, "--weights", path, code=2)

    def test_names_of_weights_come_back_and_fit_the_file(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        first, second = digits_mlp(seed=5), digits_mlp(seed=6)
        path = self.save(server, first, "first.onnx")
        weights = server.state / "second.safetensors"
        server.cli("models", "upload", "second", self.save(server, second, "second.onnx"))
        server.cli("models", "export", "second", "-O", weights, "--format", "safetensors")
        server.cli("models", "plan", path, "--weights", weights)
        server.cli("models", "upload", "mixed", path, "--weights", weights)
        x = np.random.default_rng(1).uniform(0, 1, (3, 64)).astype(np.float32)
        np.testing.assert_array_equal(self.infer(server, "mixed", {"x": x})["logits"],
                                      self.infer(server, "second", {"x": x})["logits"])
        text = """
name: tuned
model: {onnx: first.onnx, weights: second.safetensors}
data: {dataset: digits, held_out: {every: 5}}
training: {loss: cross_entropy, optimizer: adam, batch_size: 32, steps: 3, seed: 1}
publish: {model: tuned, on_success: true}
"""
        (server.state / "tuned.yaml").write_text(text)
        server.cli("plan", server.state / "tuned.yaml")
        job = server.wait_job(server.submit(text))
        self.assertEqual("SUCCEEDED", job["state"], job)
        exported = server.state / "tuned.onnx"
        server.cli("models", "export", "tuned", "-O", exported)
        tensors = {t.name: numpy_helper.to_array(t)
                   for t in onnx.load(exported).graph.initializer}
        names = {t.name for t in first.graph.initializer}
        self.assertEqual(names, set(tensors))
        begun = {t.name: numpy_helper.to_array(t) for t in second.graph.initializer}
        for name in names:  # three steps of Adam are small
            np.testing.assert_allclose(tensors[name], begun[name], atol=0.01)
            self.assertFalse(np.array_equal(tensors[name], begun[name]), name)
        again = server.state / "tuned.safetensors"
        server.cli("models", "export", "tuned", "-O", again, "--format", "safetensors")
        data = again.read_bytes()
        header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
        self.assertEqual(names, set(header) - {"__metadata__"})
        wide = self.save(server, digits_mlp(hidden=16), "wide.onnx")
        error = server.cli("models", "upload", "wide", wide, "--weights", weights, code=2)
        self.assertIn("3 of another shape: 'fc1.bias' ([32], the model has [16])", error)

    def test_a_file_in_float16_is_served_and_trained(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        model = digits_mlp()
        for tensor in model.graph.initializer:
            half = numpy_helper.to_array(tensor).astype(np.float16)
            tensor.CopyFrom(numpy_helper.from_array(half, tensor.name))
        for port in (*model.graph.input, *model.graph.output):
            port.type.tensor_type.elem_type = TensorProto.FLOAT16
        onnx.checker.check_model(model, full_check=True)
        server.cli("models", "upload", "half", self.save(server, model, "half.onnx"))
        x = np.random.default_rng(1).uniform(0, 16, (3, 64)).astype(np.float16)
        answer = self.infer(server, "half", {"x": x})["logits"]
        self.assertEqual(np.float16, answer.dtype)
        w = {t.name: numpy_helper.to_array(t).astype(np.float64)
             for t in model.graph.initializer}
        hidden = np.maximum(x.astype(np.float64) @ w["fc1.weight"].T + w["fc1.bias"], 0)
        wanted = hidden @ w["fc2.weight"].T + w["fc2.bias"]
        # One rounding to float16, and float32 inside.
        np.testing.assert_allclose(answer.astype(np.float64), wanted, rtol=2**-11 + 1e-5,
                                   atol=1e-5)
        job = server.wait_job(server.submit("""
name: half-tuned
model: {onnx: half.onnx}
data: {dataset: digits, held_out: {every: 5}, scaling: {multiply: 0.0625}}
training: {loss: cross_entropy, optimizer: adam, batch_size: 32, epochs: 30, seed: 1,
  precision: fp16}
publish: {model: half-tuned, on_success: true}
"""))
        self.assertEqual("SUCCEEDED", job["state"], job)
        self.assertGreater(job["evaluation"]["accuracy"], 0.9)
        server.cli("models", "load", "half-tuned", "--wait")
        server.cli("models", "infer", "half-tuned", "--data", harness.DIGITS, "--rows", "0:5")
        exported = server.state / "tuned.onnx"
        server.cli("models", "export", "half-tuned", "-O", exported)
        tuned = onnx.load(exported)
        onnx.checker.check_model(tuned, full_check=True)
        self.assertEqual({TensorProto.FLOAT16}, {t.data_type for t in tuned.graph.initializer})
        served = self.infer(server, "half-tuned", {"x": x})["logits"]
        server.cli("models", "upload", "again", exported)
        again = self.infer(server, "again", {"x": x})["logits"]
        np.testing.assert_allclose(again.astype(np.float32), served.astype(np.float32),
                                   rtol=0.01, atol=0.05)


if __name__ == "__main__":
    harness.main()
