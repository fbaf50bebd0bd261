#!/usr/bin/env python3
"""Models with operators of ai.onnx.ml and com.microsoft, as converters of
scikit-learn and ONNX Runtime's optimizer write them, through the real
processes."""
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402
import models_test  # noqa: E402

if models_test.onnx is not None:
    import numpy as np
    import onnx
    from models_test import TensorProto, helper
    from onnx import numpy_helper

SPECIES = ["setosa", "versicolor", "virginica"]
TREES, FEATURES = 20, 4


def forest(rng):
    """Lists of TreeEnsembleClassifier: in every tree, two levels of branches
    over four leaves with a probability for each class."""
    lists = {name: [] for name in (
        "nodes_treeids", "nodes_nodeids", "nodes_featureids", "nodes_values", "nodes_modes",
        "nodes_truenodeids", "nodes_falsenodeids", "class_treeids", "class_nodeids",
        "class_ids", "class_weights")}
    for tree in range(TREES):
        for node in range(7):
            branch = node < 3
            lists["nodes_treeids"].append(tree)
            lists["nodes_nodeids"].append(node)
            lists["nodes_featureids"].append(int(rng.integers(FEATURES)) if branch else 0)
            lists["nodes_values"].append(float(rng.uniform(-1, 1)) if branch else 0.0)
            lists["nodes_modes"].append("BRANCH_LEQ" if branch else "LEAF")
            lists["nodes_truenodeids"].append(2 * node + 1 if branch else 0)
            lists["nodes_falsenodeids"].append(2 * node + 2 if branch else 0)
            weights = rng.dirichlet(np.ones(3)) / TREES
            for place, weight in enumerate([] if branch else weights):
                lists["class_treeids"].append(tree)
                lists["class_nodeids"].append(node)
                lists["class_ids"].append(place)
                lists["class_weights"].append(float(weight))
    return lists


def probabilities(lists, x):
    """What the lists of `forest` mean."""
    sums = np.zeros((len(x), 3))
    weights = np.float32(lists["class_weights"]).reshape(TREES, 4, 3)
    for row, features in enumerate(x):
        for tree in range(TREES):
            node = 0
            while node < 3:
                at = 7 * tree + node
                smaller = (features[lists["nodes_featureids"][at]]
                           <= np.float32(lists["nodes_values"][at]))
                node = 2 * node + (1 if smaller else 2)
            sums[row] += weights[tree, node - 3]
    return sums


def make_model(nodes, inputs, outputs, weights):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(*i) for i in inputs], outputs,
        [numpy_helper.from_array(array, name) for name, array in weights.items()])
    model = helper.make_model(graph, opset_imports=[
        helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3),
        helper.make_opsetid("com.microsoft", 1)])
    model.ir_version = 8
    return model


@unittest.skipIf(models_test.onnx is None,
                 "python3-onnx and python3-numpy are not installed")
class ForeignModels(harness.TestCase):
    save = models_test.Models.save
    infer = models_test.Models.infer

    def compare_with_peer(self, path, inputs, served):
        """Compares with ONNX Runtime where it is installed."""
        if not (models_test.MODULES / "onnxruntime-node").exists():
            print("ONNX Runtime is not installed (./dev bench --peers): not compared",
                  file=sys.stderr)
            return
        feeds = {name: {"type": "float32", "dims": x.shape, "data": x.ravel().tolist()}
                 for name, x in inputs.items()}
        done = subprocess.run(
            ["node", harness.ROOT / "tests/e2e/run_onnx.js", models_test.MODULES, path],
            input=json.dumps(feeds), capture_output=True, text=True, timeout=harness.PATIENCE)
        self.assertEqual(0, done.returncode, done.stderr)
        for name, peer in json.loads(done.stdout).items():
            np.testing.assert_allclose(np.reshape(peer["data"], served[name].shape),
                                       served[name], rtol=1e-4, atol=1e-5)

    def test_a_pipeline_of_scikit_learn_gives_probabilities(self):
        rng = np.random.default_rng(1)
        lists = forest(rng)
        nodes = [
            helper.make_node("Scaler", ["x"], ["scaled"], domain="ai.onnx.ml", name="scaler",
                             offset=[0.5], scale=[2.0]),
            helper.make_node("TreeEnsembleClassifier", ["scaled"], ["label", "scores"],
                             domain="ai.onnx.ml", name="forest", classlabels_strings=SPECIES,
                             post_transform="NONE", **lists),
            helper.make_node("ZipMap", ["scores"], ["maps"], domain="ai.onnx.ml",
                             name="zipmap", classlabels_strings=SPECIES)]
        maps = onnx.ValueInfoProto(name="maps")
        entry = maps.type.sequence_type.elem_type.map_type
        entry.key_type = TensorProto.STRING
        entry.value_type.tensor_type.elem_type = TensorProto.FLOAT
        model = make_model(
            nodes, [("x", TensorProto.FLOAT, ["batch", FEATURES])],
            [helper.make_tensor_value_info("label", TensorProto.STRING, ["batch"]), maps], {})
        server = self.start("--devices", "cpu:1")
        version = server.json("models", "upload", "iris",
                              self.save(server, model, "iris.onnx"), "--max-batch-size", "8")
        self.assertEqual("READY", version["state"], version)
        # Rows of several requests share a batch, so only the outputs are warned of.
        self.assertFalse(version["plan"].get("computes_alone"), version)
        warnings = "\n".join(version["plan"]["warnings"])
        self.assertIn("place of the class among: setosa, versicolor, virginica", warnings)
        self.assertIn("a list of maps is not served", warnings)
        for rows in (1, 3, 8):
            x = rng.uniform(-0.5, 1.5, (rows, FEATURES)).astype(np.float32)
            answer = self.infer(server, "iris", {"x": x})
            expected = probabilities(lists, (x - np.float32(0.5)) * np.float32(2))
            np.testing.assert_allclose(answer["maps"], expected, rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(answer["label"], expected.argmax(1))

    def test_a_block_of_an_optimized_transformer(self):
        rng = np.random.default_rng(2)
        width, hidden, block = 32, 48, 16

        def real(*shape):
            return rng.uniform(-0.5, 0.5, shape).astype(np.float32)
        codes = rng.integers(0, 16, (hidden, width))
        scales = rng.uniform(0.01, 0.05, (hidden, width // block)).astype(np.float32)
        weights = {
            "qkv": real(width, 3 * width), "qkv_bias": real(3 * width),
            "gamma": real(width), "beta": real(width),
            "packed": (codes[:, 0::2] + 16 * codes[:, 1::2]).astype(np.uint8).reshape(
                hidden, width // block, block // 2),
            "scales": scales.reshape(-1), "gelu_bias": real(hidden)}
        nodes = [
            helper.make_node("Attention", ["x", "qkv", "qkv_bias"], ["a"], name="attention",
                             domain="com.microsoft", num_heads=4),
            helper.make_node("SkipLayerNormalization", ["x", "a", "gamma", "beta"], ["n"],
                             name="norm", domain="com.microsoft", epsilon=1e-5),
            helper.make_node("MatMulNBits", ["n", "packed", "scales"], ["h"], name="product",
                             domain="com.microsoft", K=width, N=hidden, bits=4,
                             block_size=block),
            helper.make_node("FastGelu", ["h", "gelu_bias"], ["y"], name="gelu",
                             domain="com.microsoft")]
        model = make_model(
            nodes, [("x", TensorProto.FLOAT, ["batch", 5, width])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 5, hidden])],
            weights)
        server = self.start("--devices", "cpu:1")
        path = self.save(server, model, "block.onnx")
        version = server.json("models", "upload", "block", path, "--max-batch-size", "8")
        self.assertEqual("READY", version["state"], version)
        self.assertFalse(version["plan"].get("computes_alone"), version)
        x = real(3, 5, width)
        served = self.infer(server, "block", {"x": x})

        def heads(part):
            return part.reshape(3, 5, 4, 8).transpose(0, 2, 1, 3)
        q, k, v = (heads(part) for part in
                   np.split(x @ weights["qkv"] + weights["qkv_bias"], 3, -1))
        scores = np.exp(q @ k.transpose(0, 1, 3, 2) / np.sqrt(8))
        seen = (scores / scores.sum(-1, keepdims=True) @ v).transpose(0, 2, 1, 3)
        t = x + seen.reshape(3, 5, width)
        t = t - t.mean(-1, keepdims=True)
        n = t / np.sqrt((t * t).mean(-1, keepdims=True) + 1e-5)
        n = n * weights["gamma"] + weights["beta"]
        matrix = ((codes.reshape(hidden, -1, block) - 8) * scales[..., None]).reshape(
            hidden, width)
        h = n @ matrix.T + weights["gelu_bias"]
        y = h / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h ** 3)))
        np.testing.assert_allclose(served["y"], y, rtol=1e-3, atol=1e-5)
        self.compare_with_peer(path, {"x": x}, served)


if __name__ == "__main__":
    harness.main()
