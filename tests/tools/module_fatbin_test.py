#!/usr/bin/env python3
"""The CUDA module holds what CMake was asked for, in every compiled .cu file.

    module_fatbin_test.py MODULE FAMILIES MACHINE_CODE PTX

MACHINE_CODE is a list with commas: 75,80,90.
"""
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import fatbin_list  # noqa: E402

PTX = int(sys.argv.pop())
MACHINE_CODE = [int(word) for word in sys.argv.pop().split(",")]
FAMILIES = int(sys.argv.pop())
MODULE = pathlib.Path(sys.argv.pop())


class Module(unittest.TestCase):
    def setUp(self):
        self.regions = fatbin_list.list_library(MODULE)

    def test_every_family_has_its_own_fat_binary(self):
        self.assertGreater(FAMILIES, 0)
        self.assertEqual(FAMILIES, len(self.regions))

    def test_each_holds_the_chosen_machine_code_and_ptx(self):
        for region in self.regions:
            what = fatbin_list.text(region)
            self.assertEqual(MACHINE_CODE, sorted(e.capability for e in region
                                                  if e.kind == "code"), what)
            self.assertEqual([PTX], [e.capability for e in region
                                     if e.kind == "ptx"], what)

    def test_everything_is_compressed(self):
        self.assertEqual([], [e for region in self.regions for e in region
                              if not e.compressed])

    def test_sources_know_no_other_border_than_8_0(self):
        """Else machine code from the PTX of 8.0 would miss something: see
        cmake/cuda_architectures.cmake."""
        folder = ROOT / "engine"
        for path in [*folder.rglob("*.h"), *folder.rglob("*.cuh")]:
            for border in re.findall(r"__CUDA_ARCH__\s*([<>=!]+\s*\w+)",
                                     path.read_text()):
                self.assertEqual(">= 800", border, path)


if __name__ == "__main__":
    unittest.main(verbosity=2)
