#!/usr/bin/env python3
"""Faults of a device: its worker goes, its job goes on or elsewhere."""
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
