#!/usr/bin/env python3
"""ONNX models of several sizes through the real processes: ranges, lists with
padding, inputs whose numbers decide shapes."""
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402
import models_test  # noqa: E402

if models_test.onnx is not None:
    import numpy as np
    from models_test import TensorProto, helper, make_model, numpy_helper


def encoder():
    """Embeddings that attend to each other where the mask is 1."""
    weights = {"table": np.random.default_rng(2).standard_normal((9, 4)).astype(np.float32),
               "big": np.array([1e4], np.float32), "unit": np.array([1], np.float32),
               "one": np.array([1], np.int64)}
    nodes = [helper.make_node(op, inputs, [output], name=output, **attributes)
             for op, inputs, output, attributes in (
                 ("Gather", ["table", "ids"], "x", {}),
                 ("Transpose", ["x"], "xt", {"perm": [0, 2, 1]}),
                 ("MatMul", ["x", "xt"], "s", {}),
                 ("Unsqueeze", ["mask", "one"], "m", {}),
                 ("Sub", ["m", "unit"], "d", {}),
                 ("Mul", ["d", "big"], "b", {}),
                 ("Add", ["s", "b"], "t", {}),
                 ("Softmax", ["t"], "p", {"axis": -1}),
                 ("MatMul", ["p", "x"], "y", {}))]
    model = make_model(
        nodes, [("ids", TensorProto.INT64, ["batch", "sequence"]),
                ("mask", TensorProto.FLOAT, ["batch", "sequence"])],
        [("y", TensorProto.FLOAT, ["batch", "sequence", 4])], weights)
    return model, weights["table"]


def expected(table, ids, mask):
    x = table[ids]
    scores = x @ x.transpose(0, 2, 1) + (mask[:, None, :] - 1) * 1e4
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return (p / p.sum(-1, keepdims=True)) @ x


@unittest.skipIf(models_test.onnx is None,
                 "python3-onnx and python3-numpy are not installed")
class Sizes(harness.TestCase):
    save = models_test.Models.save
    infer = models_test.Models.infer

    def check(self, server, table, rows, size):
        rng = np.random.default_rng(rows * 100 + size)
        ids = rng.integers(0, 9, (rows, size))
        mask = (rng.random((rows, size)) < 0.7).astype(np.float32)
        mask[:, 0] = 1
        y = self.infer(server, "encoder", {"ids": ids, "mask": mask})["y"]
        self.assertEqual((rows, size, 4), y.shape)
        np.testing.assert_allclose(y, expected(table, ids, mask), rtol=1e-3, atol=1e-5)

    def refused(self, server, model, inputs):
        import grpc
        with self.assertRaises(grpc.RpcError) as caught:
            self.infer(server, model, inputs)
        self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT, caught.exception.code())
        return caught.exception.details()

    def metadata(self, server, model):
        pb, rpc = harness.stubs()("inference.grpc_service")
        with server.channel() as channel:
            return rpc.GRPCInferenceServiceStub(channel).ModelMetadata(
                pb.ModelMetadataRequest(name=model), timeout=harness.PATIENCE)

    def test_requests_are_filled_up_to_listed_sizes_and_cut_back(self):
        server = self.start("--devices", "cpu:1")
        model, table = encoder()
        path = self.save(server, model, "encoder.onnx")
        sizes = ("--dimension", "sequence=4,16", "--pad", "ids=0", "--pad", "mask=0",
                 "--max-batch-size", "4")
        plan = server.json("models", "plan", path, *sizes)["plan"]
        version = server.json("models", "upload", "encoder", path, *sizes)
        self.assertEqual("READY", version["state"], version)
        self.assertEqual(plan["inference"]["peak"], version["plan"]["inference"]["peak"])
        metadata = self.metadata(server, "encoder")
        self.assertEqual([-1, -1], list(metadata.inputs[0].shape))
        self.assertEqual([-1, -1, 4], list(metadata.outputs[0].shape))
        for rows, size in ((1, 1), (3, 4), (4, 5), (2, 16), (1, 11)):
            self.check(server, table, rows, size)
        ids, mask = np.zeros((1, 17), np.int64), np.ones((1, 17), np.float32)
        error = self.refused(server, "encoder", {"ids": ids, "mask": mask})
        for word in ("'sequence'", "'ids'", "17", "1 to 16"):
            self.assertIn(word, error)
        error = self.refused(server, "encoder", {"ids": ids[:, :8], "mask": mask[:, :9]})
        self.assertIn("'sequence'", error)
        server.kill()
        server.start()
        server.cli("models", "load", "encoder", "--wait")
        self.check(server, table, 2, 7)
        files = {}
        for name, array in (("ids", ids[:, :6]), ("mask", mask[:, :6])):
            files[name] = server.state / f"{name}.npy"
            np.save(files[name], array)
        server.cli("models", "infer", "encoder", "--input", f"ids={files['ids']}",
                   "--input", f"mask={files['mask']}", "--save", server.state)
        self.assertEqual((1, 6, 4), np.load(server.state / "y.npy").shape)

    def test_a_range_takes_every_size_with_few_programs(self):
        server = self.start("--devices", "cpu:1")
        model, table = encoder()
        path = self.save(server, model, "encoder.onnx")
        version = server.json("models", "upload", "encoder", path, "--dimension",
                              "sequence=1:24", "--max-programs", "3",
                              "--max-batch-size", "2")
        self.assertEqual("READY", version["state"], version)
        for size in (24, 1, 5, 6, 7, 5, 23):
            self.check(server, table, 1 + size % 2, size)
        for word, least in (("compiled", 4), ("evicted", 1)):
            found = re.search(rf"gpupool_inference_programs_{word}_total"
                              r'\{model="encoder",version="1"\} (\d+)', server.metrics())
            self.assertIsNotNone(found, word)
            self.assertGreaterEqual(int(found.group(1)), least)

    def test_without_padding_listed_sizes_are_exact(self):
        server = self.start("--devices", "cpu:1")
        model, table = encoder()
        path = self.save(server, model, "encoder.onnx")
        server.cli("models", "upload", "encoder", path, "--dimension", "sequence=4,8",
                   "--pad", "ids=0")
        self.check(server, table, 2, 8)
        error = self.refused(server, "encoder", {"ids": np.zeros((1, 5), np.int64),
                                                 "mask": np.ones((1, 5), np.float32)})
        self.assertIn("4, 8", error)
        self.assertIn("padding", error)
        error = server.cli("models", "upload", "encoder", path, "--dimension",
                           "sequence=4,8", "--pad", "ids=0.5", code=2)
        self.assertIn("'ids'", error)
        error = server.cli("models", "upload", "encoder", path, "--dimension",
                           "sequence=4-8", code=2)
        self.assertIn("NAME=FIRST:LAST", error)

    def test_an_input_that_decides_shapes_has_a_program_for_each_value(self):
        server = self.start("--devices", "cpu:1")
        model = make_model([helper.make_node("Reshape", ["x", "shape"], ["y"], name="r")],
                           [("x", TensorProto.FLOAT, [6]), ("shape", TensorProto.INT64, [2])],
                           [("y", TensorProto.FLOAT, ["a", "b"])], {})
        path = self.save(server, model, "r.onnx")
        error = server.cli("models", "upload", "r", path, code=6)
        self.assertIn("shape", error)
        self.assertIn("--bound", error)
        version = server.json("models", "upload", "r", path, "--bound", "shape=2,3")
        self.assertTrue(version["plan"]["inputs"][1]["bound"])
        x = np.arange(6, dtype=np.float32)
        for shape in ((2, 3), (6, 1), (3, 2), (2, 3)):
            y = self.infer(server, "r", {"x": x, "shape": np.array(shape)})["y"]
            np.testing.assert_array_equal(y, x.reshape(shape))
        error = self.refused(server, "r", {"x": x, "shape": np.array([4, 2])})
        self.assertTrue(error)

    def test_an_input_may_decide_the_number_of_dimensions(self):
        server = self.start("--devices", "cpu:1")

        def branch(name, shape):
            value = helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
            axes = numpy_helper.from_array(np.array(shape, np.int64), name + "_shape")
            node = helper.make_node("Reshape", ["x", name + "_shape"], [name], name=name)
            return helper.make_graph([node], name, [], [value], [axes])
        model = make_model(
            [helper.make_node("If", ["flat"], ["y"], name="choose",
                              then_branch=branch("one", [6]),
                              else_branch=branch("two", [2, 3]))],
            [("x", TensorProto.FLOAT, [3, 2]), ("flat", TensorProto.BOOL, [])],
            [("y", TensorProto.FLOAT, ["a", "b"])], {})
        path = self.save(server, model, "choose.onnx")
        x = np.arange(6, dtype=np.float32).reshape(3, 2)
        for planned in (0, 1):
            name = f"choose{planned}"
            server.cli("models", "upload", name, path, "--bound", f"flat={planned}")
            for flat, shape in ((False, (2, 3)), (True, (6,)), (False, (2, 3))):
                y = self.infer(server, name, {"x": x, "flat": np.array(flat)})["y"]
                self.assertEqual(shape, y.shape)
                np.testing.assert_array_equal(y, x.reshape(shape))


if __name__ == "__main__":
    harness.main()
