#!/usr/bin/python3
"""`./dev` on machines with and without nvcc and an NVIDIA driver: what it says,
what it builds, and when it configures again. cmake, ninja and the demo's script
are stand-ins that write down what they were asked; the rest is real."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOLS = ("bash", "cat", "dirname", "env", "grep", "head", "mkdir", "rm", "tail", "touch")

# Configures like the real one: a file has the results of cmake/cuda.cmake.
CMAKE = """#!/usr/bin/env bash
echo "cmake $*" >>"$CALLS"
mkdir -p build/release && touch build/release/build.ninja
echo "$CUDA_MODULE" >build/release/cuda_module.txt
"""
NINJA = """#!/usr/bin/env bash
echo "ninja $*" >>"$CALLS"
[[ " $* " != *" gpupool_cuda "* ]] || [ -z "${NVCC_FAILS:-}" ] || exit 1
[[ " $* " != *" gpupool_cuda "* ]] || {
  mkdir -p build/release/lib && touch build/release/lib/libgpupool_cuda.so
}
"""


def write(path, text="#!/usr/bin/env bash\n"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


class DevCuda(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpupool-dev-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.tree, self.system = self.root / "tree", self.root / "system"
        self.calls = self.root / "calls"
        self.module = self.tree / "build/release/lib/libgpupool_cuda.so"
        shutil.copytree(ROOT / "tools/dev", self.tree / "tools/dev")
        shutil.copy(ROOT / "dev", self.tree)
        (self.tree / "packages.txt").write_text("# none\n")
        write(self.tree / "tools/demo.sh", '#!/usr/bin/env bash\necho "demo $*"\n')
        # PATH has nothing else, because the machine itself may have nvcc or a driver.
        self.path = self.root / "path"
        self.path.mkdir()
        for tool in TOOLS:
            (self.path / tool).symlink_to(shutil.which(tool))
        write(self.path / "cmake", CMAKE)
        write(self.path / "ninja", NINJA)

    def dev(self, *arguments, module="no: there is no nvcc", **variables):
        self.calls.write_text("")
        done = subprocess.run(
            [self.tree / "dev", *arguments], capture_output=True, text=True,
            timeout=60, check=False,
            env=dict(PATH=str(self.path), CALLS=str(self.calls), CUDA_MODULE=module,
                     GPUPOOL_SYSTEM_ROOT=str(self.system), **variables))
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        self.out = done.stdout
        return done.stderr

    def asked(self):
        return self.calls.read_text().splitlines()

    def test_neither_nvcc_nor_a_driver_is_one_line(self):
        said = self.dev("demo")
        self.assertEqual(1, said.count("CUDA"), said)
        self.assertIn("there is neither an NVIDIA driver nor nvcc", said)
        self.assertEqual(["cmake --preset release",
                          "ninja -C build/release gpupool gpupoold gpupool-worker "
                           "gpupool-tokenizer"],
                         self.asked())
        self.assertEqual("demo build/release/bin\n", self.out)

    def test_a_driver_without_nvcc_says_what_to_install(self):
        for driver in ("dev/nvidia0", "usr/lib/x86_64-linux-gnu/libcuda.so.1",
                       "usr/lib/wsl/lib/libcuda.so.1"):
            write(self.system / driver)
            said = self.dev("demo")
            self.assertIn(f"NVIDIA driver ({self.system / driver}) but no nvcc", said)
            for word in ("CPU does the work", "cuda-toolkit-13-0", "CUDA_HOME"):
                self.assertIn(word, said)
            (self.system / driver).unlink()
        write(self.path / "nvidia-smi")
        self.assertIn("nvidia-smi) but no nvcc", self.dev("demo"))

    def test_where_nvcc_is_the_demo_builds_the_module_and_says_so(self):
        write(self.system / "usr/local/cuda/bin/nvcc")
        said = self.dev("demo", module="yes")
        self.assertIn("ninja -C build/release gpupool_cuda", self.asked())
        self.assertIn("CUDA module was built: build/release/lib/libgpupool_cuda.so; "
                      "there is no NVIDIA driver here, so the CPU does the work", said)
        write(self.system / "dev/nvidia0")
        said = self.dev("demo", module="yes")
        self.assertIn("CUDA module was built", said)
        self.assertNotIn("CPU does the work", said)

    def test_a_toolkit_that_will_not_do_says_why(self):
        write(self.root / "old/bin/nvcc")
        said = self.dev("demo", module="no: nvcc (release 12.4) is not of CUDA 13",
                        CUDA_HOME=str(self.root / "old"))
        self.assertIn("the CPU does the work: nvcc (release 12.4) is not of CUDA 13", said)
        self.assertNotIn("ninja -C build/release gpupool_cuda", self.asked())

    def test_a_module_that_cannot_be_built_costs_the_demo_nothing_else(self):
        write(self.path / "nvcc")
        said = self.dev("demo", module="yes", NVCC_FAILS="1")
        self.assertIn("nvcc could not build the CUDA module", said)
        self.assertIn("it is not built; the CPU does the work", said)
        self.assertEqual("demo build/release/bin\n", self.out)

    def test_a_build_without_cuda_is_configured_again_once_nvcc_is_there(self):
        self.dev("build")
        self.dev("build")
        self.assertEqual(["ninja -C build/release"], self.asked())
        write(self.path / "nvcc")
        self.dev("build", module="yes")
        self.assertEqual(["cmake --preset release", "ninja -C build/release"], self.asked())
        self.dev("build", module="yes")
        self.assertEqual(["ninja -C build/release"], self.asked())

    def test_gpu_test_says_why_there_is_nothing_to_run(self):
        write(self.system / "dev/nvidia0")
        said = self.dev("gpu-test")
        self.assertIn("there is nothing to run: there is an NVIDIA driver", said)

    def test_the_build_looks_at_version_and_headers_of_the_toolkit(self):
        toolkit = self.root / "toolkit"
        (self.root / "CMakeLists.txt").write_text(
            "cmake_minimum_required(VERSION 3.25)\nproject(toolkit NONE)\n"
            f"include({ROOT}/cmake/cuda.cmake)\n")

        def state(*options):
            build = self.root / "build"
            shutil.rmtree(build, ignore_errors=True)
            done = subprocess.run(
                ["cmake", "-G", "Ninja", "-S", self.root, "-B", build,
                 f"-DCMAKE_MAKE_PROGRAM={shutil.which('ninja')}",
                 f"-DGPUPOOL_NVCC={toolkit}/bin/nvcc",
                 "-DCMAKE_FIND_USE_CMAKE_SYSTEM_PATH=OFF",
                 "-DCMAKE_FIND_USE_SYSTEM_ENVIRONMENT_PATH=OFF", *options],
                capture_output=True, text=True, timeout=60, check=False)
            if done.returncode != 0:
                return done.stderr
            return (build / "cuda_module.txt").read_text()

        write(toolkit / "bin/nvcc", "#!/bin/sh\necho release 12.4, V12.4.99\n")
        self.assertIn("(release 12.4) is not of a CUDA 13 toolkit", state())
        write(toolkit / "bin/nvcc", "#!/bin/sh\necho release 13.0, V13.0.88\n"
              "echo compute_80; echo compute_90\n")
        for header in ("cublasLt.h", "cudnn_graph.h", "cupti.h", "nccl.h"):
            self.assertIn(f"no {header} in {toolkit}/include", state())
            self.assertIn(f"no {header}", " ".join(state("-DGPUPOOL_CUDA=ON").split()))
            write(toolkit / "include" / header)
        self.assertEqual("yes\n", state())
        self.assertEqual("off\n", state("-DGPUPOOL_CUDA=OFF"))


if __name__ == "__main__":
    os.environ.pop("CUDA_HOME", None)
    unittest.main(argv=sys.argv[:1], verbosity=2)
