#!/usr/bin/env python3
"""GPUs through the real processes, with a CUDA module whose kernels run on the
host and a stand-in for the management library (tests/engine/standin): how they
are found, shown, trained on and served from."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402


class Gpu(harness.TestCase):
    def gpus(self, devices, *arguments):
        standin = harness.BIN.parent / "standin"
        return self.start("--devices", devices,
                          "--worker-binary", standin / "bin/gpupool-worker",
                          "--cuda-lib-dir", standin / "nvml", *arguments)

    def test_readings_are_shown_as_nvidia_smi_would(self):
        server = self.gpus("cuda:0")
        device = harness.wait_until(
            lambda: next((d for d in server.devices() if d.get("readings")), None),
            what="readings")
        self.assertEqual("GPU-fake", device["gpu"]["uuid"])
        self.assertEqual("580.0.1", device["gpu"]["driver_version"])
        self.assertEqual(str(3888 << 20), device["limit_bytes"])
        readings = device["readings"]
        self.assertEqual(61, readings["temperature_celsius"])
        self.assertEqual(351.5, readings["power_watts"])
        self.assertEqual([42, 43], [p["pid"] for p in readings["processes"]])
        self.assertEqual(16, len(readings["xid_events"]))
        table = server.cli("devices", "--wide")
        for cell in ("75%", "400 B/4.0 GiB", "61 C", "352 W/700 W", "5/0", "(of 16)",
                     "1980 MHz", "GPU-fake"):
            self.assertIn(cell, table)
        series = 'DCGM_FI_DEV_GPU_TEMP{UUID="GPU-fake",device="cuda:0",gpu="0"'
        harness.wait_until(lambda: series in server.metrics(), what="its series")
        # They disappear with the worker that reported them.
        pid = server.worker_pids()["cuda:0"]
        os.kill(pid, 9)
        harness.wait_until(lambda: server.worker_pids().get("cuda:0", pid) != pid,
                           what="a new worker")
        harness.wait_until(lambda: series in server.metrics(), what="its readings")

    def test_a_gpu_that_the_driver_gives_up_is_left_alone(self):
        folder = tempfile.TemporaryDirectory(prefix="gpupool-nvml-")
        self.addCleanup(folder.cleanup)
        fault = pathlib.Path(folder.name) / "fault"
        with unittest.mock.patch.dict(os.environ, FAKE_NVML_FAULT_FILE=str(fault)):
            # The sandbox would keep the worker from the file of the fault.
            server = self.gpus("cuda:0", "--sandbox", "off")
            harness.wait_until(
                lambda: any(d.get("readings") for d in server.devices()), what="readings")
            fault.write_text("xid 31")  # an application's
            harness.wait_until(lambda: server.devices()[0]["readings"]["xid_events"][-1]
                               .get("code") == 31, what="a report of no consequence")
            self.assertEqual("DEVICE_READY", server.devices()[0]["state"])
            fault.write_text("xid 79")
            os.kill(server.worker_pids()["cuda:0"], 9)  # the next reports again
            bad = harness.wait_until(
                lambda: next((d for d in server.devices()
                              if d["state"] == "DEVICE_QUARANTINED"), None),
                what="the quarantine")
        self.assertIn("exit code 11", bad["state_reason"])
        self.assertIn("Xid 79: the GPU fell off the bus", bad["state_reason"])
        self.assertIn("Xid 79: the GPU fell off the bus", server.cli("devices"))
        self.assertIn('gpupool_device_quarantined{device="cuda:0"} 1', server.metrics())
        self.assertIn('gpupool_device_faults_total{class="suspect",device="cuda:0"} 1',
                      server.metrics())
        self.assertNotIn("cuda:0", server.worker_pids())

    def test_auto_takes_gpus_where_workers_can_open_them(self):
        server = self.gpus("auto")
        self.assertEqual(["cpu:0", "cuda:0", "cuda:1", "cuda:2"],
                         [d["name"] for d in server.devices()])
        with unittest.mock.patch.dict(os.environ, GPUPOOL_STANDIN="none"):
            server = self.gpus("auto")
            self.assertEqual({"cpu"}, {d["kind"] for d in server.devices()})
            self.assertIn("there is no NVIDIA driver", server.log())
            with self.assertRaisesRegex(AssertionError, "no NVIDIA driver"):
                self.gpus("cuda:0")
        with self.assertRaisesRegex(AssertionError, "no cuda:9.* shows 3"):
            self.gpus("cuda:9")
        with self.assertRaisesRegex(AssertionError, "can be used"):
            self.gpus("cuda:0", "--device-memory", "5GiB")
        self.assertEqual([], [d for d in self.start().devices()
                              if d.get("readings")])

    def test_a_list_of_gpus_that_hangs_is_told_and_keeps_no_signal(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="gpupool-hang-"))
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        os.mkfifo(folder / "pipe")
        worker = folder / "worker"
        worker.write_text(f"#!/bin/sh\necho $$ > {folder}/pid\nexec 3<{folder}/pipe\n"
                          "exec sleep 1000\n")
        worker.chmod(0o700)

        def daemon():
            log = open(folder / "log", "w")
            self.addCleanup(log.close)
            process = subprocess.Popen(
                [harness.BIN / "gpupoold", "--state-dir", folder / "state", "--devices",
                 "auto", "--worker-binary", worker], stdout=log, stderr=log)
            self.addCleanup(process.wait)
            self.addCleanup(process.kill)
            # Opens when the other process has opened its end.
            held = open(folder / "pipe", "w")
            self.addCleanup(held.close)
            return process

        def gone():
            pid = (folder / "pid").read_text().strip()
            try:
                return "State:\tZ" in pathlib.Path(f"/proc/{pid}/status").read_text()
            except FileNotFoundError:
                return True

        process = daemon()
        harness.wait_until(lambda: "waiting for the list of GPUs" in
                           (folder / "log").read_text(), what="the line")
        self.assertIn("at_most=1m", (folder / "log").read_text())
        process.terminate()
        self.assertEqual(0, process.wait(harness.PATIENCE))
        self.assertNotIn("did not answer", (folder / "log").read_text())
        harness.wait_until(gone, what="the end of the worker")
        process = daemon()
        process.kill()
        harness.wait_until(gone, what="the end of the worker")

    def test_a_worker_that_is_no_program_is_refused(self):
        for path, words in (("/tmp", "it is a folder"), ("/no/where", "No such file")):
            done = subprocess.run(
                [harness.BIN / "gpupoold", "--worker-binary", path, "--state-dir",
                 tempfile.gettempdir() + "/gpupool-none"],
                capture_output=True, text=True, timeout=harness.PATIENCE)
            self.assertEqual(69, done.returncode, done.stderr)
            self.assertIn(words, done.stderr)
            self.assertIn("--worker-binary", done.stderr)

    def test_gpus_and_cpu_devices_serve_one_pool(self):
        server = self.gpus("cuda:2,cpu:1", "--device-memory", "2GiB")
        devices = {d["name"]: d for d in server.devices()}
        self.assertEqual(["cpu:0", "cuda:2"], list(devices))
        self.assertEqual(str(2 << 30), devices["cuda:2"]["limit_bytes"])
        self.assertLessEqual(int(devices["cpu:0"]["limit_bytes"]), 2 << 30)
        self.assertIn("gpu", devices["cuda:2"])
        self.assertNotIn("gpu", devices["cpu:0"])
        server.upload_digits()
        for kind, name in (("cuda", "cuda:2"), ("cpu", "cpu:0")):
            job = server.wait_job(server.submit(
                harness.digits_job(kind, steps=20, filters=4, device=kind)))
            self.assertEqual(("SUCCEEDED", name), (job["state"], job["device"]), job)

    def test_words_that_mean_no_device_say_what_to_write(self):
        for words, advice in (("cpu:0", "write cpu:1 for one"),
                              ("mps", "no Apple GPU back end; write cpu:1"),
                              ("cuda:0-2", "write each index")):
            done = subprocess.run([harness.BIN / "gpupoold", "--devices", words],
                                  capture_output=True, text=True, timeout=harness.PATIENCE)
            self.assertEqual(64, done.returncode, done.stderr)
            self.assertIn(f'--devices is "{words}"', done.stderr)
            self.assertIn(advice, done.stderr)
        with unittest.mock.patch.dict(os.environ, GPUPOOL_STANDIN="none"):
            with self.assertRaisesRegex(AssertionError, "no NVIDIA driver"):
                self.gpus("cuda,cpu:1")

    def test_a_gpu_without_kernels_is_left_out_and_refused_in_words(self):
        reason = ("Stand-in, CPU kernels has compute capability 7.5; this "
                  "libgpupool_cuda.so has kernels for 9.0, and 9.0 as PTX")
        with unittest.mock.patch.dict(os.environ, GPUPOOL_STANDIN="old"):
            server = self.gpus("auto")
            self.assertEqual(["cpu:0", "cuda:0", "cuda:2"],
                             [d["name"] for d in server.devices()])
            self.assertIn(reason, server.log())
            with self.assertRaisesRegex(AssertionError,
                                        f"cuda:1 cannot be used: {reason}"):
                self.gpus("cuda:1")

    def test_jobs_on_several_devices_get_those_that_are_connected_best(self):
        server = self.gpus("cuda")
        matrix = [line.split("\t") for line in
                  server.cli("devices", "topology", "--no-headers").splitlines()]
        self.assertEqual([["cuda:0", "X", "SYS", "SYS"],
                          ["cuda:1", "SYS", "X", "NVL"],
                          ["cuda:2", "SYS", "NVL", "X"]], matrix)
        server.upload_digits()
        path = server.state / "pair.yaml"
        path.write_text(harness.digits_job(steps=20, filters=4) + "\ndevices: 2\n")
        plan = server.json("plan", path)
        self.assertEqual(["cuda:1", "cuda:2"], plan["start"]["devices"], plan)

    def test_a_job_trains_and_serves_on_memory_that_nobody_may_touch(self):
        folder = tempfile.TemporaryDirectory(prefix="gpupool-opened-")
        self.addCleanup(folder.cleanup)
        opened = pathlib.Path(folder.name) / "opened"
        with unittest.mock.patch.dict(os.environ, GPUPOOL_STANDIN_OPENED=str(opened)):
            # The stand-in writes that file outside the folders of its worker.
            server = self.gpus("cuda:0", "--sandbox", "off")
        server.upload_digits()
        text = harness.digits_job(steps=60, publish="true", filters=4)
        path = server.state / "job.yaml"
        path.write_text(text)
        plan = server.json("plan", path)
        self.assertEqual([], plan["plan"]["warnings"])
        job = server.wait_job(int(server.json("submit", path)["id"]))
        self.assertEqual("SUCCEEDED", job["state"], job)
        self.assertTrue(job["device"].startswith("cuda:"), job["device"])
        self.assertEqual(plan["plan"]["training"]["peak"],
                         job["memory"]["measured_peak_bytes"])
        # The planner computed these bytes and opened no GPU.
        self.assertEqual([f"{server.worker_pids()['cuda:0']} cuda:0"],
                         opened.read_text().splitlines())
        self.infer(server)
        # Requests went directly from the ring's slots to the device and back.
        log = self.worker_log(server)
        self.assertEqual(1, log.count("slot ring pinned"), log)
        counts = self.ended_with(server)
        self.assertIn("registrations 1, left 0;", counts)
        self.assertNotIn("registered memory 0,", counts)

    def test_requests_are_staged_where_the_ring_cannot_be_pinned(self):
        with unittest.mock.patch.dict(os.environ, GPUPOOL_STANDIN="unpinnable"):
            server = self.gpus("cuda:0")
        server.upload_digits()
        path = server.state / "job.yaml"
        path.write_text(harness.digits_job(steps=60, publish="true", filters=4))
        job = server.wait_job(int(server.json("submit", path)["id"]))
        self.assertEqual("SUCCEEDED", job["state"], job)
        self.infer(server)
        log = self.worker_log(server)
        self.assertEqual(1, log.count("slot ring is not pinned"), log)
        self.assertIn("registrations 0, left 0; copies of registered memory 0,",
                      self.ended_with(server))

    def infer(self, server):
        harness.wait_until(
            lambda: "digits/1" in server.devices()[0]["versions"], what="the version")
        answer = json.loads(server.cli(
            "models", "infer", "digits", "--data", harness.DIGITS, "--rows", "last:20",
            "-o", "json"))
        self.assertEqual(20, int(answer["rows"]))
        self.assertGreater(answer["accuracy"], 0.3)

    def worker_log(self, server):
        return "".join(log.read_text() for log in
                       server.state.glob("workers/cuda*/log"))

    def ended_with(self, server):
        """Returns the log of the stand-in's device when its worker ends."""
        os.kill(server.worker_pids()["cuda:0"], signal.SIGTERM)
        return harness.wait_until(
            lambda: next((line for line in self.worker_log(server).splitlines()
                          if "stand-in:" in line), None), what="the worker's end")


if __name__ == "__main__":
    harness.main()
