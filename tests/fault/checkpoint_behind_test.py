#!/usr/bin/env python3
"""Checkpoints are written behind the training: what happens while one is on its
way to the disk, or never gets there."""
import os
import pathlib
import signal
import sys
import tempfile
import threading

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

    STEPS = 8000  # with one checkpoint on the way

    def preempt_held(self, line):
        """A job that was preempted and left its device while its checkpoint
        waits for the disk, or as `line` says; the one that runs instead; and what
        an undisturbed one ends with. The preempted one has another checkpoint on
        disk."""
        spec = dict(steps=self.STEPS, checkpoint_every_steps=self.STEPS // 2)
        server = self.start("--devices", "cpu:1", "--order", "priority", "--min-run", "0")
        server.upload_digits()
        calm = server.wait_job(server.submit(harness.digits_job("calm", **spec)))
        self.assertEqual("SUCCEEDED", calm["state"], calm)
        # One job takes all of the device.
        need = int(calm["plan"]["training"]["peak"])
        limit = int(server.devices()[0]["limit_bytes"])
        server.cli("devices", "fraction", "cpu:0", f"{1.5 * need / limit:.9f}")
        low = server.submit(harness.digits_job("low", **spec))
        harness.wait_until(lambda: self.checkpoint_step(server, low) > 0)
        self.fault.write_text(line)
        high = server.submit(harness.digits_job("high", steps=2000, priority=5,
                                                checkpoint_every_steps=0,
                                                report_every_steps=1))
        server.wait_step(high, 1)
        return server, calm, low, high

    def assert_saving(self, server, low):
        self.assertTrue(self.done.exists(), "the write is held")
        job = server.job(low)
        self.assertEqual(("RUNNING", 1), (job["state"], int(job["attempt"])), job)
        words = "its checkpoint is being written to disk; it holds no device any more"
        self.assertEqual(words, job["waiting_reason"])
        self.assertIn(words, server.cli("why", low))
        self.assertIn(words, server.cli("jobs"))

    def assert_ends_as(self, server, calm, low):
        done = server.wait_job(low)
        self.assertEqual("SUCCEEDED", done["state"], done)
        self.assertGreater(int(done["attempt"]), 1)
        self.assertEqual(server.weights_sha256(calm), server.weights_sha256(done))

    def test_the_next_job_runs_while_the_preempted_one_is_written(self):
        server, calm, low, high = self.preempt_held("hold-write 0")
        self.assert_saving(server, low)
        on_disk = self.checkpoint_step(server, low)
        # A daemon that is restarted meanwhile adopts both.
        server.kill()
        server.start()
        self.assert_saving(server, low)
        self.assertEqual("SUCCEEDED", server.wait_job(high)["state"])
        self.assert_saving(server, low)
        self.assertEqual(on_disk, self.checkpoint_step(server, low))
        self.done.unlink()
        harness.wait_until(lambda: self.checkpoint_step(server, low) > on_disk)
        self.assert_ends_as(server, calm, low)

    def test_a_worker_killed_before_the_write_sends_the_job_to_the_one_before(self):
        server, calm, low, high = self.preempt_held("hold-write 0")
        self.assert_saving(server, low)
        on_disk = self.checkpoint_step(server, low)
        os.kill(server.worker_pids()["cpu:0"], signal.SIGKILL)
        words = (f"waits to resume from step {on_disk}; what it did after that is lost: "
                 "lost the worker of cpu:0")
        harness.wait_until(lambda: words in server.cli("logs", low))
        self.done.unlink()
        self.assertEqual("SUCCEEDED", server.wait_job(high)["state"])
        self.assert_ends_as(server, calm, low)

    def test_a_full_disk_sends_the_job_to_the_one_before(self):
        server, calm, low, high = self.preempt_held("full-write 0")
        words = (f"waits to resume from step {self.STEPS // 2}; what it did after that is "
                 "lost: ")
        harness.wait_until(lambda: words in server.cli("logs", low))
        self.assertIn("free space in the state folder", server.cli("logs", low))
        self.assertEqual("SUCCEEDED", server.wait_job(high)["state"])
        self.assert_ends_as(server, calm, low)

    def test_a_cancel_waits_for_no_write(self):
        server, _, low, high = self.preempt_held("hold-write 0")
        self.assert_saving(server, low)
        server.cli("cancel", low)
        self.assertEqual("CANCELLED", server.wait_job(low)["state"])
        self.assertTrue(self.done.exists())
        self.assertEqual("SUCCEEDED", server.wait_job(high)["state"])
        self.done.unlink()

    def test_a_drain_waits_for_the_write(self):
        server, calm, low, high = self.preempt_held("hold-write 0")
        self.assert_saving(server, low)
        on_disk = self.checkpoint_step(server, low)
        threading.Timer(2, self.done.unlink).start()
        self.assertEqual(0, server.terminate())
        self.assertFalse(self.done.exists(), "the server ended before the write")
        server.start()
        self.assertGreater(self.checkpoint_step(server, low), on_disk)
        self.assertEqual("SUCCEEDED", server.wait_job(high)["state"])
        self.assert_ends_as(server, calm, low)

    def test_without_room_for_a_copy_the_device_waits_for_the_disk(self):
        server, calm, low, high = self.preempt_held("no-room 0")
        self.assertTrue(self.done.exists())
        self.assertEqual("SUCCEEDED", server.wait_job(high)["state"])
        self.assert_ends_as(server, calm, low)

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
