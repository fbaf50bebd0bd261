#!/usr/bin/env python3
"""Jobs that end the process in which they are tried alone: they fail before they
get a device, and hurt nobody."""
import os
import pathlib
import signal
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import harness  # noqa: E402

# Limit of a rehearsal's time. A healthy one of these jobs takes a small part.
SECONDS = 20


class PoisonJobs(harness.TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="gpupool-poison-")
        self.addCleanup(folder.cleanup)
        self.fault = pathlib.Path(folder.name) / "fault"
        self.done = pathlib.Path(folder.name) / "fault.done"
        for name, value in (("GPUPOOL_INJECT_FAULT_FILE", str(self.fault)),
                            ("GPUPOOL_REHEARSAL_SECONDS", str(SECONDS))):
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name)
        self.server = self.start("--devices", "cpu:1")
        self.server.upload_digits()
        # It may not fail once.
        self.bystander = self.server.submit(
            harness.digits_job("bystander", steps=1000000, max_attempts=1))
        self.server.wait_step(self.bystander, 20)
        self.pids = self.server.worker_pids()

    def submit(self, name):
        # Its own plan, so that nothing is known of it.
        return self.server.submit(
            harness.digits_job(name, steps=20, filters=9, max_attempts=1))

    def expect_refusal(self, job, *texts):
        """Waits for the end of the job, which must have got no device."""
        failed = self.server.wait_job(job)
        self.assertEqual("FAILED", failed["state"], failed)
        self.assertEqual(0, failed.get("attempt", 0))
        for text in ("before it got a device", "made alone", *texts):
            self.assertIn(text, failed["error"]["message"])
        self.expect_no_harm()

    def expect_no_harm(self):
        bystander = self.server.job(self.bystander)
        self.assertEqual("RUNNING", bystander["state"])
        self.assertEqual(1, bystander["attempt"])
        self.assertEqual(self.pids["cpu:0"], self.server.worker_pids()["cpu:0"])

    def test_a_job_that_crashes_fails_before_it_gets_a_device(self):
        self.fault.write_text("abort-try bad")
        self.expect_refusal(self.submit("bad"), "signal 6")
        # The same job without the fault is well.
        good = self.submit("good")
        self.server.cli("cancel", str(self.bystander))
        self.assertEqual("SUCCEEDED", self.server.wait_job(good)["state"])

    def test_a_job_that_hangs_fails_after_the_limit(self):
        self.fault.write_text("hang-try bad")
        job = self.submit("bad")
        self.assertIn("is tried alone", self.server.job(job)["waiting_reason"])
        self.expect_refusal(job, "signal 14", "took too long")

    def kill_rehearsal(self):
        """Kills the process of a rehearsal that hangs, as the kernel does when it
        has no memory."""
        harness.wait_until(self.done.exists, what="the rehearsal to begin")
        self.done.unlink()
        os.kill(self.server.worker_pids()["rehearsal"], signal.SIGKILL)

    def test_a_job_that_is_killed_for_memory_twice_fails(self):
        self.fault.write_text("hang-try bad")
        job = self.submit("bad")
        harness.wait_until(self.done.exists, what="the rehearsal to begin")
        self.fault.write_text("hang-try bad")  # for the second time
        self.kill_rehearsal()
        self.kill_rehearsal()
        self.expect_refusal(job, "2 times", "signal 9", "memory", "submit the job again")

    def test_a_job_whose_rehearsal_is_killed_once_is_tried_again(self):
        self.fault.write_text("hang-try good")
        job = self.submit("good")
        self.kill_rehearsal()
        self.server.cli("cancel", str(self.bystander))
        self.assertEqual("SUCCEEDED", self.server.wait_job(job)["state"])


if __name__ == "__main__":
    harness.main()
