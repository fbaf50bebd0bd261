#!/usr/bin/env python3
"""The tests that `./dev test` tries again and what it says of them: the
functions of tools/dev/tests.sh with the real ctest and small tests."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

SHELL = """
set -euo pipefail
python=/usr/bin/python3
say() {{ echo "$*"; }}
die() {{ echo "dev: $*"; exit 1; }}
source {root}/tools/dev/tests.sh
{command}
"""


class DevTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "build/release").mkdir(parents=True)
        (self.folder / "tools").mkdir()
        shutil.copy(ROOT / "tools/test_report.py", self.folder / "tools")
        self.tests = ""

    def add(self, name, label, script, *properties):
        """Adds a test that is a shell script. {folder} is its own folder."""
        own = self.folder / name
        own.mkdir()
        self.tests += (f'add_test({name} /bin/sh -c [[cd {own}; {script}]])\n'
                       f'set_tests_properties({name} PROPERTIES LABELS {label} '
                       f'{" ".join(properties)})\n')

    def run_shell(self, command):
        (self.folder / "build/release/CTestTestfile.cmake").write_text(self.tests)
        done = subprocess.run(
            ["bash", "-c", SHELL.format(root=ROOT, command=command)],
            cwd=self.folder, capture_output=True, text=True, check=False,
            env={"PATH": os.environ["PATH"]})
        return done.returncode, done.stdout + done.stderr

    SHAKY = "test -e seen || { touch seen; exit 1; }"

    def lines(self, output, word):
        return [line for line in output.splitlines() if line.startswith(word)]

    def test_a_process_test_that_passes_the_second_time_is_told_of(self):
        self.add("steady", "unit", "exit 0")
        self.add("e2e.shaky", "e2e", self.SHAKY)
        self.add("fault.late", "fault",
                 "test -e seen || { touch seen; exec sleep 100; }", "TIMEOUT", "1")
        self.add("skipped", "e2e", "exit 77", "SKIP_RETURN_CODE", "77")
        code, output = self.run_shell("run_tests")
        self.assertEqual(0, code, output)
        self.assertEqual(["flaky: e2e.shaky", "flaky: fault.late"],
                         sorted(self.lines(output, "flaky")), output)
        self.assertEqual([], self.lines(output, "failed:"))

    def test_unit_tests_have_one_try(self):
        self.add("shaky", "unit", self.SHAKY)
        code, output = self.run_shell("run_tests")
        self.assertEqual(1, code, output)
        self.assertEqual([], self.lines(output, "flaky"))
        self.assertEqual(1, len(self.lines(output, "failed: shaky (Failed)")), output)

    def test_what_fails_twice_is_named_with_its_seed(self):
        self.add("fault.storm", "fault", "echo KILL_SEED=43; exit 1")
        code, output = self.run_shell("run_tests")
        self.assertEqual(1, code, output)
        failed, = self.lines(output, "failed:")
        self.assertRegex(failed, r"failed: fault.storm \(Failed, KILL_SEED=43\), "
                                 r"build/release/tests.log:\d+")

    def test_a_parameter_behind_a_name_is_no_failure(self):
        log = self.folder / "tests.log"
        log.write_text(
            "1/2 Test #1: Faults/A.B/Once  # GetParam() = false ....   Passed    0.1 sec\n"
            "2/2 Test #2: Faults/A.B/Then  # GetParam() = true ...***Failed    0.1 sec\n")
        done = subprocess.run(
            [sys.executable, ROOT / "tools/test_report.py", "failed", log],
            capture_output=True, text=True, check=True)
        self.assertEqual([f"failed: Faults/A.B/Then (Failed), {log}:2"],
                         done.stdout.splitlines())

    def test_a_regex_chooses_and_one_that_fits_nothing_is_an_error(self):
        self.add("one", "unit", "exit 0")
        self.add("two", "e2e", "exit 1")
        self.assertEqual(0, self.run_shell("run_tests one")[0])
        code, output = self.run_shell("run_tests three")
        self.assertEqual(1, code)
        self.assertIn("dev: no test has such a name", output)

    def test_stress_has_three_rounds_beside_busy_loops_and_no_second_try(self):
        self.add("counts", "e2e", "echo x >>runs")
        self.add("shaky", "fault", self.SHAKY)
        self.add("busy", "unit", "grep -l 'gpupool-busy-loo[p]' /proc/[0-9]*/cmdline "
                 "2>/dev/null | wc -l >loops")
        code, output = self.run_shell('run_stress; echo "not here"')
        self.assertEqual(1, code, output)
        self.assertEqual("x\nx\nx\n", (self.folder / "counts/runs").read_text())
        self.assertGreaterEqual(int((self.folder / "busy/loops").read_text()), 4)
        failed, = self.lines(output, "failed:")
        self.assertIn("failed: shaky (Failed), build/release/stress/round-1.log", failed)

    def test_the_busy_loops_end_with_the_run(self):
        self.add("one", "unit", "exit 0")
        code, output = self.run_shell(
            'run_stress; for loop in $(jobs -pr); do echo "still: $loop"; done')
        self.assertEqual(0, code, output)
        self.assertIn("no test failed in three rounds", output)
        self.assertEqual([], self.lines(output, "still"))

    def test_what_a_sanitizer_reports_is_a_failure_with_its_log(self):
        tests = self.folder / "build/tsan/tests"
        tests.mkdir(parents=True)
        for name, script in (("calm_test", "exit 0"), ("racy_test", "echo race; exit 66")):
            (tests / name).write_text(f"#!/bin/sh\n{script}\n")
            (tests / name).chmod(0o700)
        (tests.parent / "thread_tests.txt").write_text("racy_test\ncalm_test\n")
        code, output = self.run_shell("run_sanitized tsan thread")
        self.assertEqual(1, code, output)
        self.assertIn("failed: racy_test, build/tsan/sanitize/racy_test.log", output)
        self.assertRegex(output, r"passed in \d+ s: calm_test")
        (tests.parent / "thread_tests.txt").write_text("calm_test\n")
        self.assertEqual(0, self.run_shell("run_sanitized tsan thread")[0])


if __name__ == "__main__":
    unittest.main(verbosity=2)
