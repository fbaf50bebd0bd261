#!/usr/bin/env python3
"""Training on rows that the worker makes: plans, results, folds, and errors."""
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402

SPIRALS = """\
name: spirals
model: {named: {mlp: {classes: 3, hidden: [64, 64]}}, input_shape: [2]}
data:
  synthetic: {kind: spirals, rows: 2000, seed: 4}
  held_out: {every: 5}
training: {loss: cross_entropy, adam: {learning_rate: 0.01}, batch_size: 32, epochs: 20,
           seed: 1}
"""
FOLDS = """\
name: fold-${index}
array: {indices: 0-2, values: {data.held_out.fold.index: "${index}"}}
model: {input_shape: [2], layers: [{dense: {units: 3}}]}
data:
  synthetic: {kind: blobs, rows: 100}
  held_out: {fold: {of: 3, seed: 1}}
training: {loss: cross_entropy, sgd: {learning_rate: 0.01}, batch_size: 8, epochs: 1}
"""


class Synthetic(harness.TestCase):
    def test_a_plan_counts_the_rows(self):
        server = self.start("--devices", "cpu:1")
        path = server.state / "spirals.yaml"
        path.write_text(SPIRALS)
        answer = server.json("plan", path)
        self.assertEqual(20 * (1600 // 32), int(answer["total_steps"]))
        self.assertEqual(2 * 2000 * 3 * 4, int(answer["plan"]["host_data_bytes"]))

    def test_spirals_are_learnt_and_give_the_same_bits_again(self):
        server = self.start("--devices", "cpu:1")
        digests = []
        for _ in range(2):
            job = server.wait_job(server.submit(SPIRALS))
            self.assertEqual("SUCCEEDED", job["state"], job)
            self.assertGreater(job["evaluation"]["accuracy"], 0.9, "of three classes")
            self.assertEqual(400, int(job["evaluation"]["rows"]))
            digests.append(server.weights_sha256(job))
        self.assertEqual(digests[0], digests[1])

    def test_images_of_shapes_feed_a_convolution(self):
        server = self.start("--devices", "cpu:1")
        job = server.wait_job(server.submit("""\
name: shapes
model: {named: {lenet5: {classes: 4}}, input_shape: [1, 16, 16]}
data: {synthetic: {kind: shapes, rows: 300}, held_out: {last: 50}}
training: {loss: cross_entropy, adam: {}, batch_size: 25, steps: 20}
"""))
        self.assertEqual("SUCCEEDED", job["state"], job)
        self.assertEqual(50, int(job["evaluation"]["rows"]))

    def test_folds_share_the_rows_out(self):
        server = self.start("--devices", "cpu:1")
        path = server.state / "folds.yaml"
        path.write_text(FOLDS)
        server.cli("run", path)
        rows = []
        for index in range(3):
            job = server.json("get", f"fold-{index}")
            self.assertEqual("SUCCEEDED", job["state"], job)
            rows.append(int(job["evaluation"]["rows"]))
        self.assertEqual([34, 33, 33], rows)

    def test_errors_name_the_field(self):
        server = self.start("--devices", "cpu:1")
        path = server.state / "wrong.yaml"
        for old, new, error in (
                ("rows: 2000", "rows: 20000000", "data.synthetic.rows is 20000000"),
                ("kind: spirals, ", "", "data.synthetic.kind must be blobs"),
                ("  held_out", "  dataset: digits\n  held_out", "both set")):
            path.write_text(SPIRALS.replace(old, new))
            self.assertIn(error, server.cli("submit", path, code=2))


if __name__ == "__main__":
    harness.main()
