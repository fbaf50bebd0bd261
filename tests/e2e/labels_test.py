#!/usr/bin/env python3
"""Datasets whose rows have labels of several numbers, through the real
processes: upload, plan, training, evaluation."""
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402

try:
    import numpy as np
    import onnx
except ImportError:
    onnx = np = None

# Homes: area and age -> price and rent.
HOMES = """\
name: homes
model:
  input_shape: [2]
  layers: [{dense: {units: 2}}]
data: {dataset: homes, held_out: {every: 4}}
training:
  mean_squared_error: {}
  adam: {learning_rate: 0.1}
  batch_size: 10
  epochs: 60
publish: {on_success: true}
"""


def homes_csv():
    rows = ["price,area,rent,age"]
    for i in range(80):
        area, age = (i * 37 % 80) / 80, (i * 11 % 80) / 80
        rows.append(f"{2 * area - age:.6f},{area:.6f},{1 + area + age:.6f},{age:.6f}")
    return "\n".join(rows) + "\n"


class Labels(harness.TestCase):
    def upload_homes(self, server):
        path = server.state / "homes.csv"
        path.write_text(homes_csv())
        return server.json("datasets", "upload", "homes", path, "--header",
                           "--label-columns", "price,rent")

    def finish(self, server, job):
        done = server.wait_job(job)
        self.assertEqual("SUCCEEDED", done["state"], done)
        self.assertEqual(done["memory"]["planned_peak_bytes"],
                         done["memory"]["measured_peak_bytes"])
        return done

    def test_several_columns_are_learned_and_served(self):
        server = self.start("--devices", "cpu:1")
        dataset = self.upload_homes(server)
        self.assertEqual(["2"], dataset["feature_shape"])
        self.assertEqual(["2"], dataset["labels"]["shape"])
        done = self.finish(server, server.submit(HOMES))
        self.assertLess(done["evaluation"]["loss"], 1e-3)
        version = server.json("models", "get", "homes")["versions"][0]
        self.assertEqual(["-1", "2"], version["plan"]["outputs"][0]["shape"])

    def test_a_validation_set_is_evaluated_with_metrics(self):
        server = self.start("--devices", "cpu:1")
        self.upload_homes(server)
        path = server.state / "homes.csv"
        rows = path.read_text().splitlines(True)
        path.write_text("".join(rows[:21]))
        server.cli("datasets", "upload", "homes-val", path, "--header",
                   "--label-columns", "price,rent")
        text = HOMES.replace("held_out: {every: 4}", "validation: homes-val").replace(
            "training:\n", "training:\n  metrics: [mae, r2]\n")
        job = server.submit(text)
        evaluation = self.finish(server, job)["evaluation"]
        self.assertEqual("20", evaluation["rows"])
        self.assertLess(evaluation["metrics"]["mae"], 0.05)
        self.assertGreater(evaluation["metrics"]["r2"], 0.99)
        shown = server.cli("get", job)
        self.assertIn("homes-val", shown)
        self.assertRegex(shown, r"held out: .*, mae [0-9.e-]+, r2 \d")
        with self.assertRaises(harness.CommandFailed) as failed:
            server.submit(text.replace("[mae, r2]", "[f1]"))
        self.assertIn("'f1' is no metric of mean_squared_error; it has mae, r2",
                      failed.exception.stderr)
        path.write_text("".join(row.replace(",", ",0,", 1) for row in rows[1:]))
        server.cli("datasets", "upload", "wide", path, "--label-columns", "0,3")
        with self.assertRaises(harness.CommandFailed) as failed:
            server.submit(text.replace("homes-val", "wide"))
        self.assertIn('features of a row of dataset "wide" have shape [3], but those of '
                      '"homes" have shape [2]', failed.exception.stderr)

    def test_a_label_of_another_size_is_refused_at_submission(self):
        server = self.start("--devices", "cpu:1")
        self.upload_homes(server)
        with self.assertRaises(harness.CommandFailed) as failed:
            server.submit(HOMES.replace("units: 2", "units: 3"))
        self.assertIn("the model's output is [3], but the dataset has labels of shape [2] "
                      "a row; end the model with dense units 2", failed.exception.stderr)
        with self.assertRaises(harness.CommandFailed) as failed:
            server.submit(HOMES.replace("mean_squared_error", "bce_with_logits"))
        self.assertIn("needs labels from 0 to 1", failed.exception.stderr)

    @unittest.skipIf(np is None, "python3-numpy and python3-onnx are not installed")
    def test_yes_and_no_answers_and_distributions(self):
        server = self.start("--devices", "cpu:1")
        points = np.random.default_rng(4).uniform(-1, 1, (96, 2)).astype(np.float32)
        powers = np.exp(3 * np.column_stack([points, np.zeros(96)]))
        cases = {
            "answers": (np.column_stack([points > 0, points[:, :1] > points[:, 1:]]),
                        "bce_with_logits", "{dense: {units: 3}}", 0.15),
            "teacher": (powers / powers.sum(1, keepdims=True), "kl_divergence",
                        "{dense: {units: 3}}, log_softmax", 0.003),
        }
        for name, (labels, loss, layers, limit) in cases.items():
            np.save(server.state / "x.npy", points)
            np.save(server.state / "y.npy", labels)
            server.cli("datasets", "upload", name, server.state / "x.npy", "--labels",
                       server.state / "y.npy")
            text = HOMES.replace("homes", name).replace("mean_squared_error", loss)
            done = self.finish(
                server, server.submit(text.replace("{dense: {units: 2}}", layers)))
            self.assertLess(done["evaluation"]["loss"], limit, name)

    @unittest.skipIf(onnx is None, "python3-numpy and python3-onnx are not installed")
    def test_a_language_model_learns_letters(self):
        subprocess.run([sys.executable, "examples/next_letter.py"], cwd=harness.ROOT,
                       check=True, capture_output=True)
        server = self.start("--devices", "cpu:1")
        dataset = server.json("datasets", "upload", "letters",
                              "examples/out/letters.npz")
        self.assertEqual(["32"], dataset["labels"]["shape"])
        self.assertEqual(-100, dataset["labels"]["minimum"])
        job = int(server.json("submit", "examples/next_letter.yaml")["id"])
        evaluation = self.finish(server, job)["evaluation"]
        self.assertGreater(evaluation["accuracy"], 0.3, "the blank alone gives 0.17")
        self.assertGreater(evaluation["top_k_accuracy"], evaluation["accuracy"])
        print(f"held-out accuracy {evaluation['accuracy']:.3f}", file=sys.stderr)


if __name__ == "__main__":
    harness.main()
