#!/usr/bin/env python3
"""The soak of tools/soak, for some seconds, with the real server."""
import json
import pathlib
import subprocess
import sys
import tempfile
import xml.dom.minidom

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402

SOAK = harness.ROOT / "tools/soak/soak.py"


class Soak(harness.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpupool-soak-test-")
        self.addCleanup(folder.cleanup)
        self.out = pathlib.Path(folder.name, "out")

    def soak(self, *arguments):
        return subprocess.run(
            [sys.executable, SOAK, "--bin", harness.BIN, "--out", self.out,
             *map(str, arguments)], capture_output=True, text=True)

    def test_a_short_soak_writes_its_files_and_its_verdict(self):
        done = self.soak("0.2", "--every", "0.5", "--rate", "8")
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        self.assertIn("PASSED", done.stdout)

        verdict = json.loads((self.out / "verdict.json").read_text())
        self.assertEqual(("PASSED", []), (verdict["verdict"], verdict["faults"]))
        self.assertIn("growth is not judged", "".join(verdict["notes"]))
        self.assertGreater(verdict["operations"], 0)

        samples = [json.loads(line) for line in
                   (self.out / "samples.jsonl").read_text().splitlines()]
        self.assertLessEqual({"gpupoold", "meta", "rehearsal", "cpu:0"},
                             set(samples[0]["processes"]))
        self.assertGreater(samples[0]["state"]["database"], 0)
        xml.dom.minidom.parse(str(self.out / "soak.svg"))
        self.assertIn("serving", (self.out / "gpupoold.log").read_text())

    def test_a_value_that_is_not_allowed_is_named_with_its_limits(self):
        for arguments, words in (
                (["0"], "minutes is 0.0; it must be 0.05 to 10080"),
                (["nan"], "minutes is nan; it must be 0.05 to 10080"),
                (["1", "--every", "0"], "every is 0.0; it must be 0.1 to 3600"),
                (["1", "--rate", "1000"], "rate is 1000.0; it must be 0.1 to 100")):
            done = self.soak(*arguments)
            self.assertEqual(2, done.returncode)
            self.assertIn(words, done.stderr)
        self.assertFalse(self.out.exists())


if __name__ == "__main__":
    harness.main()
