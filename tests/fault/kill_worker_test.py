#!/usr/bin/env python3
"""kill -9 of a worker: the job resumes and ends as if nothing had happened."""
import json
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import harness  # noqa: E402


class KillWorker(harness.TestCase):
    def test_a_memory_fraction_outlives_worker_and_daemon(self):
        server = self.start("--devices", "cpu:1")
        full = int(server.devices()[0]["limit_bytes"])
        server.cli("devices", "fraction", "cpu:0", "0.25")

        def in_force():
            try:
                stats = server.json("devices", "memory", "cpu:0")
            except harness.CommandFailed:
                return False  # the worker is away
            return int(stats["limit_bytes"]) == full // 4

        def comes_back(what):
            harness.wait_until(in_force, 20, f"the fraction after {what}")
            device, = server.devices()
            self.assertEqual(0.25, device["memory_fraction"])
            self.assertEqual(full, int(device["limit_bytes"]))

        worker = server.worker_pids()["cpu:0"]
        os.kill(worker, signal.SIGKILL)
        harness.wait_until(lambda: server.worker_pids().get("cpu:0", worker) != worker,
                           20, "another worker")
        comes_back("kill -9 of the worker")
        server.kill()
        server.start()
        comes_back("kill -9 of the daemon, whose worker is found alive")
        server.kill()
        os.kill(server.worker_pids()["cpu:0"], signal.SIGKILL)
        server.start()
        comes_back("kill -9 of both")

    def test_a_job_that_asks_for_no_checkpoints_resumes_from_one_by_time(self):
        server = self.start("--devices", "cpu:1", "--checkpoint-interval", "1")
        server.upload_digits()
        job = server.submit(harness.digits_job("long", steps=10_000_000,
                                               checkpoint_every_steps=0))

        def saved():
            return int((server.job(job).get("last_checkpoint") or {}).get("step", 0))

        harness.wait_until(lambda: saved() > 0, what="a checkpoint by time")
        os.kill(server.worker_pids()["cpu:0"], signal.SIGKILL)

        def second_attempt():
            """The steps that it has reported."""
            events = server.cli("logs", job, "--all", "-o", "json").splitlines()
            events = [json.loads(event) for event in events]
            return [int(event["progress"]["step"]) for event in events
                    if event["attempt"] == 2 and event.get("progress")]

        steps = harness.wait_until(second_attempt, what="steps of the second attempt")
        self.assertGreater(steps[0], 1, "it starts from a checkpoint")

    def test_training_resumes_to_the_same_weights(self):
        hold = self.hold()
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        calm = server.submit(harness.digits_job("calm", steps=1500))
        undisturbed = server.wait_job(calm)
        self.assertEqual("SUCCEEDED", undisturbed["state"], undisturbed)

        hold.at(250)
        shaken = server.submit(harness.digits_job("shaken", steps=1500))
        hold.wait()
        os.kill(server.worker_pids()["cpu:0"], signal.SIGKILL)
        hold.release()
        disturbed = server.wait_job(shaken)

        self.assertEqual("SUCCEEDED", disturbed["state"], disturbed)
        self.assertEqual(2, disturbed["attempt"])
        self.assertEqual(server.weights_sha256(undisturbed),
                         server.weights_sha256(disturbed))
        self.assertEqual(undisturbed["evaluation"]["accuracy"],
                         disturbed["evaluation"]["accuracy"])

    def test_the_restart_is_counted_and_the_device_comes_back(self):
        server = self.start("--devices", "cpu:1")
        os.kill(server.worker_pids()["cpu:0"], signal.SIGKILL)
        harness.wait_until(
            lambda: [d for d in server.devices() if d["state"] == "DEVICE_READY"
                     and d.get("worker_restarts", 0) == 1],
            20, "the worker to be restarted")
        self.assertIn('gpupool_worker_restarts_total{device="cpu:0"} 1',
                      server.metrics())

    def test_a_served_model_comes_back(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        job = server.submit(harness.digits_job(steps=100, publish="true"))
        server.wait_job(job)
        server.cli("models", "load", "digits", "--wait")
        infer = ("models", "infer", "digits", "--data", harness.DIGITS,
                 "--rows", "last:20")
        before = server.json(*infer)
        os.kill(server.worker_pids()["cpu:0"], signal.SIGKILL)
        harness.wait_until(lambda: server.worker_pids().get("cpu:0"), 20, "a worker")
        server.cli("models", "load", "digits", "--wait")
        self.assertEqual(before["accuracy"], server.json(*infer)["accuracy"])


if __name__ == "__main__":
    harness.main()
