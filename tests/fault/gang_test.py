#!/usr/bin/env python3
"""A job on two devices: it computes what one device computes, and ends the same
whatever dies on the way."""
import math
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import harness  # noqa: E402


def gang_job(name="gang", devices=2, **changes):
    return f"devices: {devices}\n" + harness.digits_job(name, **changes)


def plain_job(name, devices, **changes):
    """What one device computes with the whole batch and two with its halves:
    batch norm and dropout see the rows of their own device only."""
    text = gang_job(name, devices, **changes)
    for layer in ("    - batch_norm\n", "    - dropout: {probability: 0.1}\n"):
        assert layer in text
        text = text.replace(layer, "")
    return text


class Gang(harness.TestCase):
    def losses(self, server, job):
        pb, rpc = harness.stubs()("gpupool.v1.job")
        stub = rpc.JobServiceStub(server.channel())
        return {event.progress.step: event.progress.loss
                for event in stub.WatchJob(pb.WatchJobRequest(id=job), timeout=harness.PATIENCE)
                if event.HasField("progress")}

    def finished(self, server, name, **changes):
        done = server.wait_job(server.submit(gang_job(name, **changes)))
        self.assertEqual("SUCCEEDED", done["state"], done)
        return done

    def groups(self, server):
        folder = server.state / "groups"
        return list(folder.iterdir()) if folder.exists() else []

    def test_two_devices_train_as_one_does(self):
        server = self.start("--devices", "cpu:2")
        server.upload_digits()
        one, two = (server.wait_job(server.submit(
            plain_job(f"on-{n}", n, filters=64, report_every_steps=10)))
            for n in (1, 2))
        self.assertEqual(("SUCCEEDED", "SUCCEEDED"), (one["state"], two["state"]))
        self.assertEqual(["cpu:0", "cpu:1"], two["devices"])
        self.assertEqual(["cpu:0"], one["devices"])
        expected, found = (self.losses(server, int(j["id"])) for j in (one, two))
        common = sorted(set(expected) & set(found))
        # Fast steps are not all reported, but the first and the last one are.
        self.assertLessEqual({1, 400}, set(common))
        for step in common:
            self.assertTrue(math.isclose(expected[step], found[step], rel_tol=1e-5),
                            f"step {step}: {expected[step]} and {found[step]}")
        self.assertEqual(one["evaluation"]["accuracy"], two["evaluation"]["accuracy"])
        harness.wait_until(lambda: not self.groups(server), 10, "the group's folder to go")

    def test_a_cancel_frees_both_devices(self):
        server = self.start("--devices", "cpu:2")
        server.upload_digits()
        job = server.submit(gang_job(steps=1000000))
        server.wait_step(job, 50)
        for device in server.devices():
            self.assertEqual([str(job)], device["job_ids"])
        server.cli("cancel", job)
        self.assertEqual("CANCELLED", server.wait_job(job)["state"])
        for device in server.devices():
            self.assertEqual([], device.get("job_ids", []))
            self.assertEqual(0, int(device.get("committed_bytes", 0)))
        self.finished(server, "after", steps=20)

    def test_a_killed_rank_makes_all_resume_to_the_same_weights(self):
        hold = self.hold()
        server = self.start("--devices", "cpu:2")
        server.upload_digits()
        calm = self.finished(server, "calm", steps=1200)
        for rank in ("cpu:1", "cpu:0"):
            hold.at(250)
            job = server.submit(gang_job(f"without-{rank[-1]}", steps=1200))
            hold.wait()
            os.kill(server.worker_pids()[rank], signal.SIGKILL)
            hold.release()
            done = server.wait_job(job)
            self.assertEqual(("SUCCEEDED", 2), (done["state"], done["attempt"]), done)
            self.assertEqual(server.weights_sha256(calm), server.weights_sha256(done))

    def test_a_drain_and_a_restart_change_nothing(self):
        server = self.start("--devices", "cpu:2")
        server.upload_digits()
        calm = self.finished(server, "calm", steps=1500)
        job = server.submit(gang_job("drained", steps=1500))
        server.wait_step(job, 150)
        self.assertEqual(0, server.terminate())
        server.start()
        done = server.wait_job(job)
        self.assertEqual("SUCCEEDED", done["state"], done)
        self.assertEqual(server.weights_sha256(calm), server.weights_sha256(done))

    def test_a_killed_daemon_adopts_the_whole_group(self):
        server = self.start("--devices", "cpu:2")
        server.upload_digits()
        job = server.submit(gang_job(steps=6000, checkpoint_every_steps=500))
        server.wait_step(job, 100)
        workers = server.worker_pids()
        server.kill()
        server.start()
        done = server.wait_job(job)
        self.assertEqual(("SUCCEEDED", 1), (done["state"], done["attempt"]), done)
        self.assertEqual(workers["cpu:0"], server.worker_pids()["cpu:0"])
        self.assertEqual(workers["cpu:1"], server.worker_pids()["cpu:1"])

    def test_a_rank_that_dies_while_no_daemon_runs_is_found_out(self):
        hold = self.hold()
        server = self.start("--devices", "cpu:2")
        server.upload_digits()
        hold.at(250)
        job = server.submit(gang_job(steps=3000))
        hold.wait()
        pid = server.worker_pids()["cpu:1"]
        server.kill()
        os.kill(pid, signal.SIGKILL)
        hold.release()
        server.start()
        done = server.wait_job(job)
        self.assertEqual("SUCCEEDED", done["state"], done)
        self.assertGreaterEqual(done["attempt"], 2)

    def test_gangs_and_small_jobs_make_progress_together(self):
        server = self.start("--devices", "cpu:2")
        server.upload_digits()
        jobs = []
        for i in range(3):
            jobs.append(server.submit(gang_job(f"gang-{i}", steps=60)))
            jobs.append(server.submit(harness.digits_job(f"small-{i}", steps=60)))
            jobs.append(server.submit(harness.digits_job(f"other-{i}", steps=60)))
        for job in jobs:
            self.assertEqual("SUCCEEDED", server.wait_job(job)["state"])

    def test_more_devices_than_there_are_never_fit(self):
        server = self.start("--devices", "cpu:2")
        server.upload_digits()
        with self.assertRaises(harness.CommandFailed) as refused:
            server.submit(gang_job(devices=4))
        self.assertIn("never fits: needs 4 devices of one kind", refused.exception.stderr)
        self.assertIn("2 of 2 cpu devices", refused.exception.stderr)
        plan = server.cli("plan", server.state / "job.yaml")
        self.assertIn("on 4 x one kind of device", plan)


if __name__ == "__main__":
    harness.main()
