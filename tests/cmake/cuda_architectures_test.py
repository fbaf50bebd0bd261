#!/usr/bin/env python3
"""Which GPUs the CUDA module is compiled for: cmake/cuda_architectures.cmake,
with an nvcc that only lists.

    cuda_architectures_test.py CMAKE
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

CMAKE = sys.argv.pop()
ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NEW = (75, 80, 86, 87, 88, 89, 90, 100, 110, 103, 120, 121)  # CUDA 13.0
OLD = (50, 52, 60, 61, 70, 75, 80, 86, 87, 89, 90)           # CUDA 12.4

SCRIPT = """
cmake_minimum_required(VERSION 3.25)
include({root}/cmake/cuda_architectures.cmake)
gpupool_list_architectures(known {nvcc})
gpupool_choose_architectures(chosen "{asked}" "${{known}}")
gpupool_cuda_code(flags ptx "${{chosen}}")
message("chosen ${{chosen}}")
message("flags ${{flags}}")
message("ptx ${{ptx}}")
"""


class Architectures(unittest.TestCase):
    def run_cmake(self, asked, nvcc_script):
        with tempfile.TemporaryDirectory() as folder:
            nvcc = pathlib.Path(folder) / "nvcc"
            nvcc.write_text(f"#!/bin/sh\n{nvcc_script}\n")
            nvcc.chmod(0o755)
            script = pathlib.Path(folder) / "script.cmake"
            script.write_text(SCRIPT.format(root=ROOT, nvcc=nvcc, asked=asked))
            return subprocess.run([CMAKE, "-P", script], capture_output=True, text=True)

    def choose(self, asked, known=NEW):
        lines = "\\n".join(f"compute_{each}" for each in known)
        return self.run_cmake(asked, f"printf '{lines}\\n'")

    def chosen(self, asked, known=NEW):
        done = self.choose(asked, known)
        self.assertEqual(0, done.returncode, done.stderr)
        return {line.split(" ", 1)[0]: line.split(" ", 1)[1]
                for line in done.stderr.splitlines()}

    def refused(self, asked, known=NEW):
        done = self.choose(asked, known)
        self.assertNotEqual(0, done.returncode)
        return " ".join(done.stderr.split())

    def test_auto_is_every_gpu_in_use(self):
        found = self.chosen("AUTO")
        self.assertEqual("75;80;86;89;90;100;120", found["chosen"])
        self.assertEqual("-gencode=arch=compute_75,code=[sm_75];"
                         "-gencode=arch=compute_80,code=[sm_80,sm_86,sm_89,sm_90,"
                         "sm_100,sm_120,compute_80]", found["flags"])
        self.assertEqual("80", found["ptx"])

    def test_tests_need_one_only(self):
        self.assertEqual("90", self.chosen("TESTS")["chosen"])
        self.assertIn('"90" is no architecture', self.refused("TESTS", (75, 80)))

    def test_an_old_toolkit_leaves_out_what_it_does_not_know_and_says_so(self):
        done = self.choose("AUTO", OLD)
        self.assertIn("chosen 75;80;86;89;90\n", done.stderr)
        self.assertIn("without 100, 120, which this nvcc does not know", done.stdout)

    def test_a_list_is_taken_with_any_separator_in_any_order(self):
        for asked in ("80;90", "90,80", "90, 80", "80 90", "80,90,80", ";80;90;"):
            self.assertEqual("80;90", self.chosen(asked)["chosen"], asked)
        self.assertEqual("90;100;120", self.chosen("120,90,100")["chosen"])

    def test_one_architecture_has_its_own_ptx(self):
        found = self.chosen("90")
        self.assertEqual("-gencode=arch=compute_90,code=[sm_90,compute_90]",
                         found["flags"])
        self.assertEqual("90", found["ptx"])
        found = self.chosen("75")
        self.assertEqual("-gencode=arch=compute_75,code=[sm_75,compute_75]",
                         found["flags"])
        self.assertEqual("75", found["ptx"])

    def test_a_bad_value_is_refused_with_what_nvcc_knows(self):
        for asked, bad in (("90,95", "95"), ("sm_90", "sm_90"), ("9.0", "9.0"),
                           ("90a", "90a"), ("all", "all"), ("-90", "-90")):
            text = self.refused(asked)
            self.assertIn(f'GPUPOOL_CUDA_ARCHITECTURES is "{asked}"; "{bad}" is no '
                          "architecture of this nvcc", text)
            self.assertIn("out of: 75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, "
                          "121", text)
        self.assertIn('"120" is no architecture', self.refused("90,120", OLD))

    def test_nothing_is_no_choice(self):
        for asked in ("", " ", ";,"):
            self.assertIn("which chooses nothing", self.refused(asked), asked)
        self.assertIn("which chooses nothing", self.refused("AUTO", (50, 52)))

    def test_an_nvcc_that_lists_nothing_is_named(self):
        done = self.run_cmake("AUTO", "echo it is broken >&2; exit 3")
        self.assertNotEqual(0, done.returncode)
        self.assertIn("it is broken", done.stderr)
        self.assertIn("lists no architecture", " ".join(done.stderr.split()))


if __name__ == "__main__":
    unittest.main(verbosity=2)
