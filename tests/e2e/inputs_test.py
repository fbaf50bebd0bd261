#!/usr/bin/env python3
"""Models with several inputs and outputs, through the real processes: upload,
plan, training on one and two devices, evaluation, serving."""
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

NPZ = "examples/out/reviews.npz"
INPUTS = ["--input", "input_ids=ids", "--input", "attention_mask=mask"]
TARGETS = ["--target", "stars=stars", "--target", "length=length"]


@unittest.skipIf(onnx is None, "python3-numpy and python3-onnx are not installed")
class Inputs(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        subprocess.run([sys.executable, "examples/reviews.py"], cwd=harness.ROOT,
                       check=True, capture_output=True)

    def text(self):
        text = (harness.ROOT / "examples/reviews.yaml").read_text()
        return text.replace("out/reviews.onnx",
                            str(harness.ROOT / "examples/out/reviews.onnx"))

    def finish(self, server, job):
        done = server.wait_job(job)
        self.assertEqual("SUCCEEDED", done["state"], done)
        self.assertEqual(done["memory"]["planned_peak_bytes"],
                         done["memory"]["measured_peak_bytes"])
        return done

    def test_two_inputs_and_two_outputs_are_learned_and_served(self):
        server = self.start("--devices", "cpu:2")
        dataset = server.json("datasets", "upload", "reviews", NPZ, *INPUTS, *TARGETS)
        self.assertEqual([("attention_mask", "UINT8", ["16"]),
                          ("input_ids", "INT64", ["16"])],
                         [(array["name"], array["data_type"], array["shape"])
                          for array in dataset["inputs"]])
        self.assertEqual(["length", "stars"],
                         [array["name"] for array in dataset["targets"]])
        self.assertEqual(2, dataset["targets"][1]["facts"]["maximum"])
        plan = server.json("plan", self.write(server, self.text()))["plan"]
        # 16 int64, 16 uint8, a uint8 and a float32 for each of the 600 rows.
        self.assertEqual(600 * (16 * 8 + 16 + 1 + 4), int(plan["host_data_bytes"]))
        done = self.finish(server, server.submit(self.text()))
        self.assertGreater(done["evaluation"]["accuracy"], 0.7)
        both = self.finish(server, server.submit(
            self.text().replace("name: reviews", "name: both\ndevices: 2", 1)))
        self.assertAlmostEqual(done["evaluation"]["loss"], both["evaluation"]["loss"],
                               delta=0.2)
        version = server.json("models", "get", "reviews")["versions"][0]
        self.assertEqual(["input_ids", "attention_mask"],
                         [spec["name"] for spec in version["plan"]["inputs"]])

    def write(self, server, text):
        path = server.state / "job.yaml"
        path.write_text(text)
        return path

    def test_what_does_not_fit_is_refused_at_submission(self):
        server = self.start("--devices", "cpu:1")

        def refusal(*command):
            with self.assertRaises(harness.CommandFailed) as failed:
                server.cli(*command)
            return failed.exception.stderr

        job = self.write(server, self.text())
        server.cli("datasets", "upload", "reviews", NPZ, "--features-array", "ids",
                   "--labels-array", "stars")
        self.assertIn("the dataset has one array of features; upload an NPZ archive",
                      refusal("submit", job))
        server.cli("datasets", "delete", "reviews")
        server.cli("datasets", "upload", "reviews", NPZ, *INPUTS[:2], *TARGETS)
        self.assertIn("the model's input 'attention_mask' is not in the dataset, which "
                      "has 'input_ids'", refusal("submit", job))
        server.cli("datasets", "delete", "reviews")
        server.cli("datasets", "upload", "reviews", NPZ, *INPUTS, *TARGETS[:2])
        self.assertIn("the dataset has no target 'length'; it has 'stars'",
                      refusal("submit", job))
        self.assertIn("--input takes NAME=ARRAY",
                      refusal("datasets", "upload", "x", NPZ, "--input", "ids"))
        self.assertIn('holds no array "none"; it has: ids.npy, mask.npy',
                      refusal("datasets", "upload", "x", NPZ, "--input", "a=none"))
        self.assertIn("is for NPZ", refusal("datasets", "upload", "x",
                                            "examples/data/digits.csv.gz", *INPUTS))


if __name__ == "__main__":
    harness.main()
