#!/usr/bin/env python3
"""gpupool doctor through the real binaries, over stand-ins of the driver
(tests/engine/backends/cuda/fake_libcuda.cc), of the management library and of
NVIDIA's other libraries, and over folders in place of /proc, /sys and /dev."""
import ctypes
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402

LIBRARIES = ("libcublasLt.so.13", "libcudnn.so.9", "libnvrtc.so.13", "libnccl.so.2",
             "libcupti.so.13")
CUDNN_PARTS = ("graph", "ops", "cnn", "adv", "heuristic", "engines_precompiled",
               "engines_runtime_compiled")
# Finding: the answers of the stand-ins.
BY_VARIABLES = [
    ("driver.ok", {}),
    ("driver.too_old", {"FAKE_CUDA_VERSION": "12040"}),
    ("driver.mismatch", {"FAKE_CUDA_INIT": "803"}),
    ("driver.mismatch", {"FAKE_NVML_INIT": "18"}),
    ("driver.compat_not_supported", {"FAKE_CUDA_INIT": "804"}),
    ("driver.fabric_not_ready", {"FAKE_CUDA_INIT": "802"}),
    ("driver.stub_library", {"FAKE_CUDA_INIT": "34"}),
    ("driver.unknown_error", {"FAKE_CUDA_INIT": "999"}),
    ("driver.failed", {"FAKE_CUDA_INIT": "304"}),
    ("driver.crashes", {"FAKE_CUDA_CRASH": "1"}),
    ("driver.hangs", {"FAKE_CUDA_HANG": "1"}),
    ("gpu.ok", {}),
    ("gpu.none", {"FAKE_CUDA_INIT": "100"}),
    ("gpu.none", {"FAKE_CUDA_COUNT": "0"}),
    ("gpu.all_hidden", {"FAKE_CUDA_INIT": "100", "CUDA_VISIBLE_DEVICES": "7"}),
    ("gpu.some_hidden", {"CUDA_VISIBLE_DEVICES": "0"}),
    ("gpu.no_virtual_memory", {"FAKE_CUDA_NO_VIRTUAL_MEMORY": "1"}),
    ("gpu.memory_held", {"FAKE_NVML_FREE_GIB": "20"}),
    ("gpu.prohibited", {"FAKE_NVML_COMPUTE_MODE": "2"}),
    ("gpu.exclusive", {"FAKE_NVML_COMPUTE_MODE": "3"}),
    ("gpu.mig", {"FAKE_NVML_MIG": "1"}),
    ("gpu.persistence_off", {"FAKE_NVML_PERSISTENCE": "0"}),
    ("gpu.lost", {"FAKE_NVML_LOST": "1"}),
    ("gpu.remap_pending", {"FAKE_NVML_REMAP_PENDING": "1"}),
    ("gpu.remap_failed", {"FAKE_NVML_REMAP_FAILED": "1"}),
    ("peer.ok", {"FAKE_CUDA_COUNT": "3"}),
    ("peer.none", {"FAKE_CUDA_COUNT": "2", "FAKE_CUDA_APART": "1"}),
    ("library.ok", {}),
    ("library.other_cuda", {"FAKE_CUDNN_CUDA": "12080"}),
    ("library.too_old", {"FAKE_NCCL_VERSION": "21200"}),
    ("library.nvml_failed", {"FAKE_NVML_INIT": "4"}),
    ("module.ok", {}),
    ("module.fails", {"GPUPOOL_STANDIN": "none"}),
]


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
        return True
    except OSError:
        return False


class Doctor(harness.TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="gpupool-doctor-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.standin = harness.BIN.parent / "standin"
        self.worker = self.standin / "bin/gpupool-worker"
        self.libraries = self.folder / "libraries"
        self.libraries.mkdir()
        for name in LIBRARIES:
            shutil.copy(self.standin / "vendor/libfake_vendor.so", self.libraries / name)
        for part in CUDNN_PARTS:
            (self.libraries / f"libcudnn_{part}.so.9").touch()
        shutil.copy(self.standin / "nvml/libnvidia-ml.so.1", self.libraries)
        self.machine()

    def write(self, path, text=""):
        path = self.root / path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def machine(self):
        """Pretends that this machine has the driver's kernel module."""
        self.root = self.folder / "root"
        shutil.rmtree(self.root, ignore_errors=True)
        self.write("proc/driver/nvidia/version", "NVRM version: NVIDIA Module  580.65.06  x\n")
        self.write("proc/meminfo", "MemTotal:  67108864 kB\n")
        for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
            self.write(f"dev/{name}")
        (self.root / "dev/shm").mkdir()
        for name in ("vendor", "class"):
            self.write(f"sys/bus/pci/devices/0000:01:00.0/{name}",
                       {"vendor": "0x10de\n", "class": "0x030200\n"}[name])

    def environment(self, variables=(), driver=True):
        env = {name: value for name, value in os.environ.items()
               if not name.startswith(("CUDA_", "NVIDIA_", "FAKE_", "KUBERNETES_"))}
        env["LD_LIBRARY_PATH"] = str(self.standin / "driver") if driver else ""
        return {**env, **dict(variables)}

    def run_worker(self, *arguments, variables=(), driver=True, worker=None,
                   libraries=None, **options):
        """Returns (exit code, findings by id) of `gpupool-worker doctor`."""
        done = subprocess.run(
            [worker or self.worker, "doctor", "--root", self.root,
             "--cuda-lib-dir", libraries or self.libraries, *arguments],
            env=self.environment(variables, driver), capture_output=True, text=True,
            timeout=harness.PATIENCE, **options)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        findings = json.loads(done.stdout)["findings"]
        failed = any(f["severity"] == "fail" for f in findings)
        self.assertEqual(1 if failed else 0, done.returncode, done.stdout)
        return {f["id"]: f for f in findings}

    def assert_found(self, finding, *arguments, **options):
        found = self.run_worker(*arguments, **options)
        self.assertIn(finding, found, json.dumps(found, indent=1))
        return found[finding]

    def test_every_answer_of_the_driver_has_its_finding(self):
        for finding, variables in BY_VARIABLES:
            with self.subTest(finding=finding, variables=variables):
                limit = "0.5" if "FAKE_CUDA_HANG" in variables else "30"
                self.assert_found(finding, "--limit-seconds", limit, variables=variables)

    def test_memory_errors_are_told(self):
        faults = self.folder / "faults"
        faults.write_text("ecc 3")
        found = self.assert_found("gpu.memory_errors",
                                  variables={"FAKE_NVML_FAULT_FILE": str(faults)})
        self.assertIn("3 memory errors", found["text"])

    @unittest.skipIf(has_driver(), "this machine has a driver")
    def test_without_the_drivers_library_the_machine_tells_why(self):
        def found(finding, variables=()):
            return self.assert_found(finding, driver=False, variables=variables)

        self.assertIn("580.65.06", found("driver.libcuda_missing")["text"])
        self.write(".dockerenv")
        found("container.libcuda_missing")
        for name in ("nvidia0", "nvidia1"):
            (self.root / "dev" / name).unlink()
        found("container.no_gpus")
        found("container.no_gpus_asked", {"NVIDIA_VISIBLE_DEVICES": "void"})
        found("container.no_compute", {"NVIDIA_DRIVER_CAPABILITIES": "utility"})
        shutil.rmtree(self.root / "proc/driver")
        found("driver.not_installed")
        shutil.rmtree(self.root / "sys")
        self.assertEqual("note", found("driver.none")["severity"])

    def test_what_the_kernels_side_lacks_is_told(self):
        failing = {"FAKE_CUDA_INIT": "100"}
        (self.root / "dev/nvidia-uvm").unlink()
        self.assert_found("driver.device_files_missing", variables=failing)
        self.write(".dockerenv")
        self.assert_found("container.device_files_missing", variables=failing)
        self.assert_found("container.no_utility",
                          variables={"NVIDIA_DRIVER_CAPABILITIES": "compute"})
        self.machine()
        (self.root / "dev/nvidia0").unlink()
        (self.root / "dev/nvidia0").symlink_to("nowhere")
        self.assert_found("driver.no_permission", variables=failing)
        shutil.rmtree(self.root / "proc/driver")
        self.assert_found("driver.kernel_module_missing", variables=failing)
        shutil.rmtree(self.root / "sys")
        self.assert_found("driver.no_gpu_behind_it", variables=failing)
        self.write("proc/sys/kernel/osrelease", "5.15-microsoft-standard-WSL2")
        self.assert_found("driver.wsl_too_old", variables=failing)
        self.write("dev/dxg")
        self.assert_found("driver.wsl")

    def test_a_library_that_is_no_driver_is_told(self):
        broken = self.folder / "broken"
        broken.mkdir()
        (broken / "libcuda.so.1").write_text("text")
        if not has_driver():
            self.assert_found("driver.libcuda_broken",
                              variables={"LD_LIBRARY_PATH": str(broken)})

    def test_libraries_that_do_not_fit_are_told(self):
        (self.libraries / f"libcudnn_{CUDNN_PARTS[0]}.so.9").unlink()
        found = self.run_worker()
        # Missing, unless the machine has them elsewhere.
        if "library.part_missing" in found:
            self.assertIn("libcudnn_graph.so.9", found["library.part_missing"]["text"])
        (self.libraries / "libnvidia-ml.so.1").write_text("text")
        if not has_driver():
            self.assert_found("library.nvml_missing")

    def test_the_module_must_have_code_for_the_gpus(self):
        found = self.run_worker()
        self.assertNotIn("gpu.no_code", found)
        self.assertIn("9.0, and 9.0 as PTX", found["module.ok"]["text"])
        found = self.assert_found("gpu.no_code", variables={"FAKE_CUDA_CAPABILITY": "75"})
        self.assertIn("-DGPUPOOL_CUDA_ARCHITECTURES=75,", found["remedy"])
        self.assert_found("gpu.too_old", variables={"FAKE_CUDA_CAPABILITY": "61"})
        self.assert_found("gpu.compiled_at_start",
                          variables={"FAKE_CUDA_CAPABILITY": "120"})

    def worker_without_a_module(self):
        tree = pathlib.Path(tempfile.mkdtemp(dir=self.folder))
        (tree / "bin").mkdir()
        (tree / "lib").mkdir()
        worker = tree / "bin/gpupool-worker"
        try:
            os.link(self.worker, worker)
        except OSError:
            shutil.copy(self.worker, worker)
        return worker

    def test_a_module_that_is_missing_or_another_is_told(self):
        worker = self.worker_without_a_module()
        self.assert_found("module.missing", worker=worker)
        module = worker.parent.parent / "lib/libgpupool_cuda.so"
        module.write_text("text")
        self.assert_found("module.unusable", worker=worker)
        module.unlink()
        self.assert_found("module.absent", worker=worker,
                          variables={"FAKE_CUDA_INIT": "999"})

    def test_limits_are_told(self):
        self.write("proc/self/cgroup", "0::/\n")
        self.write("sys/fs/cgroup/memory.max", str(1 << 30))
        self.write("sys/fs/cgroup/cpu.max", "10000 100000")
        self.write("sys/fs/cgroup/pids.max", "100")
        self.write("proc/sys/vm/overcommit_memory", "2")
        (self.root / "dev/shm").rmdir()
        done = self.run_worker("--ring-bytes", str(1 << 40),
                               variables={"FAKE_CUDA_COUNT": "2"})
        for finding in ("memory", "processes", "overcommit", "shared_memory"):
            self.assertIn(f"limits.{finding}", done)
        if len(os.sched_getaffinity(0)) > 1:
            self.assertIn("limits.cores", done)
        limited = self.run_worker(preexec_fn=limit_process)
        for finding in ("open_files", "addresses", "locked_memory"):
            self.assertIn(f"limits.{finding}", limited)

    def test_the_state_folder_and_the_ports_are_told(self):
        state = self.folder / "state"
        found = self.run_worker("--state-dir", state)
        self.assertIn(str(state), found["state.ok"]["text"])
        self.assertFalse(state.exists())
        self.assert_found("state.no_folder", "--state-dir", "/proc/self")
        found = self.assert_found("state.no_folder", "--state-dir", "/dev/null")
        self.assertIn("/dev/null is no folder", found["text"])
        self.assert_found("state.in_memory", "--state-dir", "/dev/shm")
        with socket.create_server(("127.0.0.1", 0)) as listener:
            port = listener.getsockname()[1]
            found = self.assert_found("port.held", "--ports", f"0,{port},0")
        self.assertIn(f"port {port}", found["text"])
        self.assertIn("--http-port", found["remedy"])

    def test_each_library_is_asked_by_itself(self):
        found = self.run_worker(variables={"FAKE_NCCL_SIGNAL": "7"})
        self.assertIn("libnccl.so.2) ends or stops", found["library.fatal"]["text"])
        self.assertIn("signal 7 (Bus error)", found["library.fatal"]["text"])
        self.assertIn("library.ok", found)
        text = self.folder / "text"
        text.mkdir()
        (text / "libcublasLt.so.13").write_text("text")
        found = self.assert_found("library.passed_over",
                                  libraries=f"{text}:{self.libraries}")
        self.assertIn(f"{text}/libcublasLt.so.13: file too short", found["text"])
        self.assert_found("library.no_folder", libraries="/no/where")

    def test_a_driver_that_tells_no_version_is_told(self):
        self.assert_found("driver.no_version", variables={"FAKE_CUDA_VERSION": "0"})

    def test_values_that_mean_nothing_are_refused(self):
        for option, value, words in (
                ("--limit-seconds", "nan", "'nan' is not a number of seconds"),
                ("--ring-bytes", "-1", "'-1' is not a number of bytes"),
                ("--ports", "99999", "'99999' is not a port; write 0 to 65535"),
                ("--listen", "nonsense", "'nonsense' is not an IP address"),
                ("--state-dir", "", "it is empty; name a folder"),
                ("--root", "/no/where", "/no/where")):
            done = subprocess.run([self.worker, "doctor", option, value],
                                  capture_output=True, text=True, timeout=harness.PATIENCE)
            self.assertEqual(2, done.returncode, done.stdout)
            self.assertIn(words, done.stderr)
            self.assertIn(option, done.stderr)

    def test_output_that_goes_nowhere_is_an_error(self):
        done = subprocess.run(["/bin/sh", "-c", f"exec '{self.worker}' doctor --no-gpus >&-"],
                              stderr=subprocess.PIPE, text=True, timeout=harness.PATIENCE)
        self.assertEqual(1, done.returncode)
        self.assertEqual("gpupool-worker doctor: standard output is closed; the findings "
                         "go there\n", done.stderr)
        for command in ([self.worker, "doctor", "--no-gpus"],
                        [harness.BIN / "gpupool", "doctor", "--worker-binary", self.worker,
                         "--ports", "0"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True,
                                      timeout=harness.PATIENCE)
            self.assertEqual(1, done.returncode)
            self.assertIn("output cannot be written", done.stderr)

    def test_the_timeout_bounds_a_driver_that_hangs(self):
        done = self.cli("--timeout", "9s", variables={"FAKE_CUDA_HANG": "1"})
        self.assertEqual(1, done.returncode, done.stdout + done.stderr)
        self.assertIn("the CUDA driver does not answer: no answer in 2.4s", done.stdout)

    def cli(self, *arguments, variables=(), driver=True):
        return subprocess.run(
            [harness.BIN / "gpupool", "doctor", "--worker-binary", self.worker,
             "--state-dir", self.folder / "state", "--ports", "0",
             "--cuda-lib-dir", self.libraries, *arguments],
            env=self.environment(variables, driver), capture_output=True, text=True,
            timeout=harness.PATIENCE)

    def test_people_get_lines_and_scripts_get_json(self):
        done = self.cli(variables={"FAKE_CUDA_VERSION": "12040"})
        self.assertEqual(1, done.returncode, done.stdout + done.stderr)
        lines = done.stdout.splitlines()
        at = next(i for i, line in enumerate(lines) if line.startswith("[fail]"))
        self.assertIn("runs CUDA 12.4; gpupool's module needs CUDA 13.0", lines[at])
        self.assertIn("-> install a driver of version 580 or later", lines[at + 1])
        self.assertIn("1 failure", lines[-1])
        done = self.cli("-o", "json")
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        self.assertEqual(0, json.loads(done.stdout)["failures"])

    @unittest.skipIf(has_driver(), "this machine has a driver")
    def test_a_machine_without_a_gpu_is_well_unless_one_is_expected(self):
        done = self.cli(driver=False)
        if "the PCI bus" in done.stdout or "kernel module" in done.stdout:
            self.skipTest("this machine has a GPU without a driver")
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        self.assertEqual(1, self.cli("--expect-gpu", driver=False).returncode)

    def test_the_daemon_logs_what_is_wrong_and_waits_for_no_driver(self):
        arguments = ("--devices", "auto", "--worker-binary", self.worker,
                     "--cuda-lib-dir", self.libraries)
        with unittest.mock.patch.dict(
                os.environ, self.environment({"FAKE_CUDA_VERSION": "12040"})):
            server = self.start(*arguments)
        harness.wait_until(lambda: "doctor id=driver.too_old" in server.log(),
                           what="the finding")
        line = next(line for line in server.log().splitlines() if "driver.too_old" in line)
        self.assertIn('remedy="install a driver of version 580 or later', line)
        self.assertEqual(1, server.log().count("doctor id=driver.too_old"))
        self.assertNotIn("doctor id=driver.ok", server.log())
        with unittest.mock.patch.dict(os.environ,
                                      self.environment({"FAKE_CUDA_HANG": "1"})):
            server = self.start(*arguments)
        self.assertNotIn("driver.hangs", server.log())
        self.assertEqual(0, server.terminate())

    def test_the_documentation_has_the_table(self):
        done = subprocess.run([self.worker, "doctor", "--list"], capture_output=True,
                              text=True, check=True)
        self.assertIn(done.stdout, (harness.ROOT / "docs/doctor.md").read_text())


def limit_process():
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (65536, 65536))


if __name__ == "__main__":
    harness.main()
