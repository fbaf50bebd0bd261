#!/usr/bin/env python3
"""Checkpoints are written behind the training: what happens while one is on its
way to the disk, or never gets there."""
import os
import pathlib
import signal
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import harness  # noqa: E402


class CheckpointBehind(harness.TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="gpupool-fault-")
        self.addCleanup(folder.cleanup)
        self.fault = pathlib.Path(folder.name) / "fault"
        self.done = pathlib.Path(folder.name) / "fault.done"
        os.environ["GPUPOOL_INJECT_FAULT_FILE"] = str(self.fault)
        self.addCleanup(os.environ.pop, "GPUPOOL_INJECT_FAULT_FILE")

    def start_held(self, line, **changes):
        """A server, what an undisturbed job ends with, and a job that runs when
        the fault is due."""
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        calm = server.wait_job(server.submit(harness.digits_job("calm", **changes)))
        self.assertEqual("SUCCEEDED", calm["state"], calm)
        self.fault.write_text(line)
        return server, calm, server.submit(harness.digits_job("shaken", **changes))

    def checkpoint_step(self, server, job):
        return int(server.job(job).get("last_checkpoint", {}).get("step", 0))

    def test_training_goes_on_and_what_is_not_on_disk_is_not_told_of(self):
        server, calm, job = self.start_held("hold-write 100")
        server.wait_step(job, 140)
        self.assertEqual(0, self.checkpoint_step(server, job))
        self.done.unlink()
        done = server.wait_job(job)
        self.assertEqual("SUCCEEDED", done["state"], done)
        self.assertEqual(server.weights_sha256(calm), server.weights_sha256(done))

    def test_a_worker_killed_before_the_write_costs_steps_alone(self):
        server, calm, job = self.start_held("hold-write 200")
        server.wait_step(job, 240)
        harness.wait_until(lambda: self.checkpoint_step(server, job) == 100)
        os.kill(server.worker_pids()["cpu:0"], signal.SIGKILL)
        self.done.unlink()
        done = server.wait_job(job)
        self.assertEqual("SUCCEEDED", done["state"], done)
        self.assertEqual(2, int(done["attempt"]))
        self.assertEqual(server.weights_sha256(calm), server.weights_sha256(done))

    def test_a_full_disk_is_told_of_and_the_job_goes_on_from_the_one_before(self):
        server, calm, job = self.start_held("full-write 200")
        done = server.wait_job(job)
        self.assertEqual("SUCCEEDED", done["state"], done)
        self.assertEqual(2, int(done["attempt"]))
        self.assertIn("free space in the state folder", server.cli("logs", job))
        self.assertEqual(server.weights_sha256(calm), server.weights_sha256(done))

    def test_a_stop_waits_for_what_is_on_its_way(self):
        server, calm, job = self.start_held("hold-write 100", steps=20000)
        server.wait_step(job, 140)
        server.cli("hold", job)
        self.assertEqual("RUNNING", server.job(job)["state"])
        self.done.unlink()
        harness.wait_until(lambda: server.job(job)["state"] == "QUEUED")
        self.assertGreaterEqual(self.checkpoint_step(server, job), 140)
        server.cli("cancel", job)


if __name__ == "__main__":
    harness.main()
