#!/usr/bin/python3
"""tools/gpu_test.sh over a suite that is none: tests that fail, that end their
process and that hang. The others are run all the same, what the bad ones said
is kept, and the time is bounded."""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Prints the output of a GoogleTest binary.
SUITE = """#!/usr/bin/python3
import os, sys, time
TESTS = ["Gpu/A.Fine/x", "Gpu/A.Dies/x", "Gpu/A.Fails/x", "Gpu/A.Last/x",
         "B.Skips", "C.Hangs", "C.Never", "D.Never"]
given = dict(a.split("=", 1) if "=" in a else (a, "") for a in sys.argv[1:])
wanted = given.get("--gtest_filter", "*")
tests = [t for t in TESTS if wanted == "*" or t in wanted.split(":")]
if "--gtest_list_tests" in given:
    for i, test in enumerate(tests):
        suite, name = test.split(".")
        if i == 0 or not tests[i - 1].startswith(suite + "."):
            print(suite + ".")
        print("  " + name + ("  # GetParam() = x" if "/" in name else ""))
    sys.exit(0)
for test in tests:
    print("[ RUN      ] " + test, flush=True)
    if test == "Gpu/A.Dies/x":
        print('says "why" \\\\ and\\tdies', flush=True)
        os._exit(3)
    if test == "C.Hangs":
        time.sleep(600)
    ends = {"Gpu/A.Fails/x": "  FAILED  ", "B.Skips": "  SKIPPED "}
    where = ", where GetParam() = x" if "Fails" in test else ""
    print(f"[{ends.get(test, '       OK ')}] {test}{where} (1 ms)", flush=True)
sys.exit(any("Fails" in test for test in tests))
"""


class GpuScriptTest(unittest.TestCase):
    def test_a_bad_test_costs_the_others_nothing(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "tools").mkdir()
            (folder / "tests").mkdir()
            shutil.copy(ROOT / "tools/gpu_test.sh", folder / "tools")
            suite = folder / "tests/fake_gpu_test"
            suite.write_text(SUITE)
            suite.chmod(0o755)
            done = subprocess.run(
                [folder / "tools/gpu_test.sh", "--out", folder / "out",
                 "--limit", "6", "--bench", "--sanitize"],
                capture_output=True, text=True, timeout=60, check=False)
            result = json.loads((folder / "out/result.json").read_text())
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        rows = {row["suite"].split()[1]: (row["passed"], row["failed"],
                                          row["skipped"], row["not_run"])
                for row in result["suites"]}
        self.assertEqual(rows, {"Gpu/A": (2, 2, 0, 0), "B": (0, 0, 1, 0),
                                "C": (0, 1, 0, 1), "D": (0, 0, 0, 1)})
        said = {row["test"].split()[-1]: row["output"]
                for row in result["failures"]}
        self.assertEqual(set(said),
                         {"Gpu/A.Dies/x", "Gpu/A.Fails/x", "C.Hangs"})
        self.assertIn('says "why" \\ and\tdies', said["Gpu/A.Dies/x"])
        self.assertIn("status 3", said["Gpu/A.Dies/x"])
        self.assertIn("status 124", said["C.Hangs"])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
