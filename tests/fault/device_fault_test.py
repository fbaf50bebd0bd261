#!/usr/bin/env python3
"""Faults of a device: its worker ends, and its job resumes there or elsewhere."""
import os
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import harness  # noqa: E402


class DeviceFault(harness.TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="gpupool-fault-")
        self.addCleanup(folder.cleanup)
        self.fault = pathlib.Path(folder.name) / "fault"
        os.environ["GPUPOOL_INJECT_FAULT_FILE"] = str(self.fault)
        self.addCleanup(os.environ.pop, "GPUPOOL_INJECT_FAULT_FILE")

    def inject(self, line):
        written = self.fault.with_suffix(".new")
        written.write_text(line)
        written.rename(self.fault)

    def undisturbed(self, server):
        server.upload_digits()
        calm = server.wait_job(server.submit(harness.digits_job("calm")))
        self.assertEqual("SUCCEEDED", calm["state"], calm)
        return calm

    def resumes_after(self, server, line):
        calm = self.undisturbed(server)
        self.inject(line)
        shaken = server.wait_job(server.submit(harness.digits_job("shaken")))
        self.assertEqual("SUCCEEDED", shaken["state"], shaken)
        self.assertEqual(2, shaken["attempt"])
        self.assertEqual(server.weights_sha256(calm), server.weights_sha256(shaken))
        return shaken

    def test_a_lost_context_costs_an_attempt_and_nothing_else(self):
        server = self.start("--devices", "cpu:1")
        shaken = self.resumes_after(server, "sticky 250")
        self.assertIn("exit code 10", server.log())
        self.assertIn("illegal memory access", server.log())
        self.assertIn('gpupool_device_quarantined{device="cpu:0"} 0', server.metrics())
        self.assertIn('gpupool_device_faults_total{class="lost_context",device="cpu:0"} 1',
                      server.metrics())

    def test_the_device_cools_down_and_the_attempt_is_not_charged(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        self.inject("sticky 50")
        job = server.submit(harness.digits_job("spared", max_attempts=1))
        harness.wait_until(lambda: server.devices()[0].get("cools_until"))
        harness.wait_until(lambda: "cooling" in server.cli("devices"))
        self.assertRegex(server.cli("devices"),
                         r"cpu:0 starts no jobs until .* after a fault: .*illegal")
        self.assertIn('gpupool_device_cooling{device="cpu:0"} 1', server.metrics())
        harness.wait_until(lambda: "cools down" in server.cli("why", str(job)))
        self.assertEqual(["cpu:0"], server.job(job)["faulted_devices"])
        self.assertEqual("SUCCEEDED", server.wait_job(job)["state"])
        self.assertEqual(2, server.job(job)["attempt"])
        harness.wait_until(lambda: 'gpupool_device_consecutive_faults{device="cpu:0"} 0'
                          in server.metrics())

    def test_a_job_under_which_device_after_device_fails_is_to_blame(self):
        server = self.start("--devices", "cpu:3")
        server.upload_digits()
        self.inject("sticky 50")
        job = server.submit(harness.digits_job("poison"))
        done = pathlib.Path(f"{self.fault}.done")
        for _ in range(2):
            harness.wait_until(done.exists)
            done.unlink()
            self.inject("sticky 50")
        failed = server.wait_job(job)
        self.assertEqual("FAILED", failed["state"], failed)
        self.assertIn("is to blame: 3 faults of cpu:0, cpu:1, cpu:2 under it",
                      failed["error"]["message"])
        self.assertIn("gpupool_jobs_blamed_total 1", server.metrics())
        for device in server.devices():
            self.assertNotIn("cools_until", device)
        # The devices are cleared: the next job starts at once.
        calm = server.wait_job(server.submit(harness.digits_job("calm")))
        self.assertEqual("SUCCEEDED", calm["state"], calm)

    def test_a_step_that_never_ends_is_ended(self):
        server = self.start("--devices", "cpu:1", "--hang-timeout", "2")
        self.resumes_after(server, "hang 250")
        self.assertIn("hangs: a training step", server.log())
        self.assertIn('gpupool_worker_hangs_total{device="cpu:0"} 1', server.metrics())

    def test_a_suspect_device_is_left_alone_and_the_job_goes_elsewhere(self):
        server = self.start("--devices", "cpu:2")
        shaken = self.resumes_after(server, "suspect 250")
        bad, = [d for d in server.devices() if d["state"] == "DEVICE_QUARANTINED"]
        self.assertNotEqual(bad["name"], shaken["device"])
        self.assertIn("uncorrectable ECC", bad["state_reason"])
        self.assertIn(f'gpupool_device_quarantined{{device="{bad["name"]}"}} 1',
                      server.metrics())
        self.assertIn("quarantined", server.cli("devices"))
        self.assertIn("uncorrectable ECC", server.cli("devices"))


if __name__ == "__main__":
    harness.main()
