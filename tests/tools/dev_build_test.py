#!/usr/bin/env python3
"""For which GPUs the verbs of ./dev configure a build folder: the functions of
tools/dev/build.sh, with a cmake that writes down what it is asked for."""
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

SHELL = """
set -euo pipefail
source {root}/tools/dev/build.sh
look_for_cuda() {{ nvcc=; }}
say() {{ :; }}
need() {{ :; }}
die() {{ echo "$*"; exit 1; }}
ninja() {{ :; }}
cmake() {{
  echo "configured $*" >&3
  touch build/release/build.ninja
  local gpus=AUTO argument
  for argument; do
    [[ $argument == -DGPUPOOL_CUDA_ARCHITECTURES=* ]] && gpus=${{argument#*=}}
  done
  echo "GPUPOOL_CUDA_ARCHITECTURES:STRING=$gpus" >build/release/CMakeCache.txt
}}
{function} release
build_preset release 3>&1
"""


class DevBuild(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def configured(self, function, environment=()):
        """Returns cmake's arguments, or "" when the folder needed no change."""
        done = subprocess.run(
            ["bash", "-c", SHELL.format(root=ROOT, function=function)],
            cwd=self.folder, capture_output=True, text=True,
            env={"PATH": "/usr/bin:/bin", **dict(environment)})
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout.strip()

    def test_a_fresh_folder_of_tests_has_one_kind_of_gpu_until_it_is_built_for_all(self):
        self.assertEqual("configured --preset release "
                         "-DGPUPOOL_CUDA_ARCHITECTURES=TESTS",
                         self.configured("build_for_tests"))
        self.assertEqual("", self.configured("build_for_tests"))
        self.assertEqual("configured --preset release "
                         "-DGPUPOOL_CUDA_ARCHITECTURES=AUTO",
                         self.configured("build_for_all"))
        self.assertEqual("", self.configured("build_for_tests"))
        self.assertEqual("", self.configured("build_for_all"))

    def test_a_fresh_build_is_for_all(self):
        self.assertEqual("configured --preset release",
                         self.configured("build_for_all"))
        self.assertEqual("", self.configured("build_for_tests"))

    def test_what_somebody_chose_stays(self):
        chosen = {"GPUPOOL_CUDA_ARCHITECTURES": "80,90"}
        asked = "configured --preset release -DGPUPOOL_CUDA_ARCHITECTURES=80,90"
        self.assertEqual(asked, self.configured("build_for_tests", chosen))
        self.assertEqual("", self.configured("build_for_tests", chosen))
        self.assertEqual("", self.configured("build_for_all"))
        self.assertEqual("", self.configured("build_for_tests"))
        (self.folder / "build/release/CMakeCache.txt").write_text(
            "GPUPOOL_CUDA_ARCHITECTURES:STRING=AUTO\n")
        self.assertEqual(asked, self.configured("build_for_all", chosen))


if __name__ == "__main__":
    unittest.main(verbosity=2)
