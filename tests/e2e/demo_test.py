#!/usr/bin/env python3
"""`./dev demo`: trains, serves and classifies in under 20 s after the build."""
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402


class Demo(unittest.TestCase):
    def test_ends_with_one_json_line_of_good_figures(self):
        done = subprocess.run([harness.ROOT / "tools/demo.sh", harness.BIN],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(0, done.returncode, done.stderr)
        self.assertEqual(1, done.stdout.count("\n"), done.stdout)
        result = json.loads(done.stdout)
        self.assertEqual(["demo", "test_accuracy", "train_seconds", "infer_p50_ms",
                          "model", "version", "devices", "trained_on"], list(result))
        self.assertEqual(("digits", "digits", "1"),
                         (result["demo"], result["model"], result["version"]))
        self.assertGreaterEqual(result["test_accuracy"], 0.97)
        self.assertGreater(result["infer_p50_ms"], 0)
        self.assertTrue(result["devices"])
        self.assertIn(result["trained_on"], result["devices"])


if __name__ == "__main__":
    harness.main()
