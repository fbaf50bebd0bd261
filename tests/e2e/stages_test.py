#!/usr/bin/env python3
"""ONNX models that run in stages, through the real processes: a detector whose answers
have as many rows as it found, and a loop that ends with a computed condition."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402
import models_test  # noqa: E402

if models_test.onnx is not None:
    import numpy as np
    from models_test import TensorProto, helper, make_model

ANCHORS, CLASSES = 12, 3


def detector():
    """The head of an SSD: scores of anchors, suppression, and the chosen rows."""
    rng = np.random.default_rng(3)
    weights = {"w": rng.standard_normal((4, CLASSES)).astype(np.float32),
               "most": np.array(4, np.int64), "overlap": np.array(0.45, np.float32),
               "low": np.array(0.4, np.float32), "one": np.array(1, np.int64),
               "two": np.array(2, np.int64), "last": np.array([4], np.int64),
               "flat": np.array([-1], np.int64)}
    nodes = [helper.make_node(op, inputs, [output], name=output, **attributes)
             for op, inputs, output, attributes in (
                 ("MatMul", ["x", "w"], "logits", {}),
                 ("Sigmoid", ["logits"], "p", {}),
                 ("Transpose", ["p"], "s", {"perm": [0, 2, 1]}),
                 ("NonMaxSuppression", ["x", "s", "most", "overlap", "low"], "chosen", {}),
                 ("Gather", ["chosen", "one"], "labels", {"axis": 1}),
                 ("Gather", ["chosen", "two"], "anchor", {"axis": 1}),
                 ("Squeeze", ["x", "zero"], "all", {}),
                 ("Gather", ["all", "anchor"], "boxes", {}),
                 ("GatherND", ["s", "chosen"], "scores", {}))]
    weights["zero"] = np.array([0], np.int64)
    model = make_model(nodes, [("x", TensorProto.FLOAT, ["batch", ANCHORS, 4])],
                       [("boxes", TensorProto.FLOAT, ["found", 4]),
                        ("scores", TensorProto.FLOAT, ["found"]),
                        ("labels", TensorProto.INT64, ["found"])], weights)
    return model, weights["w"]


def overlap(a, b):
    corner = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
    if (corner <= 0).any():
        return 0.0
    common = corner.prod()
    return common / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - common)


def detect(x, w):
    scores = 1 / (1 + np.exp(-(x @ w)))
    found = []
    for label in range(CLASSES):
        kept = []
        for i in np.argsort(-scores[:, label], kind="stable"):
            if len(kept) == 4 or scores[i, label] <= 0.4:
                continue
            if all(overlap(x[i], x[k]) <= 0.45 for k in kept):
                kept.append(i)
        found += [(x[i], scores[i, label], label) for i in kept]
    return found


def counter():
    """Halves even numbers and triples odd ones until 1, and counts the steps."""
    integer = lambda name: helper.make_tensor_value_info(  # noqa: E731
        name, TensorProto.INT64, [])
    truth = lambda name: helper.make_tensor_value_info(  # noqa: E731
        name, TensorProto.BOOL, [])
    even = helper.make_graph([helper.make_node("Identity", ["half"], ["e"])], "even", [],
                             [integer("e")])
    odd = helper.make_graph([helper.make_node("Mul", ["s", "three"], ["m"]),
                             helper.make_node("Add", ["m", "one"], ["o"])], "odd", [],
                            [integer("o")])
    body = helper.make_graph(
        [helper.make_node("Div", ["s", "two"], ["half"]),
         helper.make_node("Mul", ["half", "two"], ["back"]),
         helper.make_node("Equal", ["back", "s"], ["is_even"]),
         helper.make_node("If", ["is_even"], ["t"], name="parity", then_branch=even,
                          else_branch=odd),
         helper.make_node("Add", ["c", "one"], ["d"]),
         helper.make_node("Greater", ["t", "one"], ["next"]),
         helper.make_node("Identity", ["t"], ["row"])],
        "body", [integer("i"), truth("go"), integer("s"), integer("c")],
        [truth("next"), integer("t"), integer("d"), integer("row")])
    nodes = [helper.make_node("Greater", ["n", "one"], ["start"]),
             helper.make_node("Sub", ["n", "n"], ["none"]),
             helper.make_node("Loop", ["", "start", "n", "none"], ["last", "steps", "rows"],
                              name="walk", body=body)]
    return make_model(nodes, [("n", TensorProto.INT64, [])],
                      [("steps", TensorProto.INT64, []),
                       ("rows", TensorProto.INT64, ["steps"])],
                      {"one": np.array(1, np.int64), "two": np.array(2, np.int64),
                       "three": np.array(3, np.int64)})


@unittest.skipIf(models_test.onnx is None,
                 "python3-onnx and python3-numpy are not installed")
class Stages(harness.TestCase):
    save = models_test.Models.save
    infer = models_test.Models.infer

    def test_a_detector_answers_with_the_rows_that_it_found(self):
        server = self.start("--devices", "cpu:1")
        model, w = detector()
        path = self.save(server, model, "detector.onnx")
        version = server.json("models", "upload", "detector", path, "--max-programs", "64")
        self.assertIn("NonMaxSuppression 'chosen' decides",
                      " ".join(version["plan"]["warnings"]))
        rng = np.random.default_rng(4)
        counts = set()
        for spread in (0.5, 2, 6) * 4:
            corner = rng.uniform(-spread, spread, (ANCHORS, 2))
            x = np.concatenate([corner, corner + rng.uniform(0.5, 3, (ANCHORS, 2))],
                               axis=1).astype(np.float32)
            got = self.infer(server, "detector", {"x": x[None]})
            found = detect(x, w)
            counts.add(len(found))
            self.assertEqual((len(found), 4), got["boxes"].shape)
            self.assertEqual([label for _, _, label in found], list(got["labels"]))
            np.testing.assert_allclose(got["scores"], [score for _, score, _ in found],
                                       rtol=1e-5)
            np.testing.assert_array_equal(
                got["boxes"], np.array([box for box, _, _ in found]).reshape(-1, 4))
        self.assertGreater(len(counts), 2)

    def test_a_loop_ends_with_a_computed_condition(self):
        server = self.start("--devices", "cpu:1")
        path = self.save(server, counter(), "counter.onnx")
        server.cli("models", "upload", "counter", path)
        for n in (1, 2, 7, 27):
            rows, t = [], n
            while t > 1:
                t = t // 2 if t % 2 == 0 else 3 * t + 1
                rows.append(t)
            got = self.infer(server, "counter", {"n": np.array(n)})
            self.assertEqual(len(rows), int(got["steps"]))
            np.testing.assert_array_equal(got["rows"], np.array(rows, np.int64))


if __name__ == "__main__":
    harness.main()
