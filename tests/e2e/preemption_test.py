#!/usr/bin/env python3
"""Jobs that give way to others, wait for others and come to limits, through the
real processes: nothing that a job computes may depend on it."""
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402

LONG = 3000


class Preemption(harness.TestCase):
    def events(self, server, job_id):
        pb2, grpc_pb2 = harness.stubs()("gpupool.v1.job")
        with server.channel() as channel:
            stub = grpc_pb2.JobServiceStub(channel)
            return list(stub.WatchJob(pb2.WatchJobRequest(id=job_id)))

    def losses(self, server, job_id):
        """The loss of every reported step; a step that two attempts report is
        the same step."""
        return {event.progress.step: event.progress.loss
                for event in self.events(server, job_id)
                if event.WhichOneof("event") == "progress"
                and event.progress.step % 100 == 0}

    def manifest_files(self, server, job):
        manifest = server.manifest(job["last_checkpoint"]["manifest_sha256"])
        return {f["role"]: f["sha256"] for f in manifest["files"]}

    def reasons(self, server, job_id):
        return [event.state_change.reason for event in self.events(server, job_id)
                if event.WhichOneof("event") == "state_change"]

    def start_server(self, *flags, devices="cpu:1"):
        # One job takes all of a small device.
        server = self.start("--devices", devices, "--min-run", "0", *flags)
        server.upload_digits()
        need = int(server.json("plan", self.job_file(server))["plan"]["training"]["peak"])
        for number in range(int(devices.split(":")[1])):
            device = f"cpu:{number}"
            limit = next(int(d["limit_bytes"]) for d in server.devices()
                         if d["name"] == device)
            server.cli("devices", "fraction", device, f"{1.5 * need / limit:.9f}")
        return server

    def job_file(self, server):
        path = server.state / "probe.yaml"
        path.write_text(harness.digits_job("probe"))
        return path

    def test_a_job_of_higher_priority_takes_the_device_and_gives_it_back(self):
        hold = self.hold()
        server = self.start_server("--order", "priority")
        spec = dict(steps=LONG, checkpoint_every_steps=0, report_every_steps=100)
        calm = server.wait_job(server.submit(harness.digits_job("calm", **spec)))
        hold.at(250)
        low = server.submit(harness.digits_job("low", **spec))
        hold.wait()
        high = server.submit(harness.digits_job("high", steps=200, priority=5))
        hold.release()
        self.assertEqual("SUCCEEDED", server.wait_job(high)["state"])
        done = server.wait_job(low)
        self.assertEqual("SUCCEEDED", done["state"], done)
        self.assertEqual(2, int(done["attempt"]))
        # Compares weights, optimizer state and every loss.
        self.assertEqual(self.manifest_files(server, calm),
                         self.manifest_files(server, done))
        alone = self.losses(server, int(calm["id"]))
        shared = self.losses(server, low)
        both = alone.keys() & shared.keys()  # two reports are 10 ms apart
        self.assertGreater(len(both), 10)
        self.assertEqual({step: alone[step] for step in both},
                         {step: shared[step] for step in both})
        self.assertIn(f"preempted by job {high}", server.cli("logs", low))
        waits = [r for r in self.reasons(server, low) if "waits to resume" in r]
        self.assertEqual(1, len(waits), waits)
        self.assertIn(f"preempted by job {high}", waits[0])
        metrics = server.metrics()
        self.assertIn('gpupool_preemptions_total{reason="priority"} 1', metrics)
        self.assertIn('gpupool_checkpoint_duration_seconds_count{phase="restore"} 1',
                      metrics)
        self.assertGreater(float(server.job(low)["run_seconds"]), 0)

    def test_the_job_with_the_least_left_goes_first(self):
        server = self.start_server("--order", "srs", "--preempt-hysteresis", "2")
        long = server.submit(harness.digits_job("long", steps=200000))
        server.wait_step(long, 100)
        short = server.submit(harness.digits_job("short", steps=100)
                              + "expected_run_seconds: 0.1\n")
        self.assertEqual("SUCCEEDED", server.wait_job(short)["state"])
        self.assertIn('gpupool_preemptions_total{reason="order"} 1', server.metrics())
        server.wait_job(long, ("RUNNING",))
        server.cli("cancel", long)

    def test_run_time_survives_a_restart(self):
        server = self.start_server("--order", "las")
        job = server.submit(harness.digits_job(steps=200000))
        server.wait_step(job, 300)
        self.assertEqual(0, server.terminate())
        server.start()
        server.wait_job(job, ("RUNNING",))
        before = float(server.job(job)["run_seconds"])
        self.assertGreater(before, 0)
        server.wait_step(job, 600)
        self.assertGreater(float(server.job(job)["run_seconds"]), before)
        server.cli("cancel", job)

    def test_hold_release_and_requeue(self):
        server = self.start_server()
        held = server.submit(harness.digits_job("held", steps=200000))
        server.wait_step(held, 100)
        server.cli("hold", held)
        job = server.wait_job(held, ("QUEUED",))
        self.assertIn("gpupool release", job["waiting_reason"])
        # Another job has the device meanwhile.
        self.assertEqual("SUCCEEDED", server.wait_job(
            server.submit(harness.digits_job("other", steps=100)))["state"])
        self.assertEqual(0, server.terminate())
        server.start()
        self.assertTrue(server.job(held)["held"], "it is held after a restart")
        why = server.json("why", held)
        self.assertEqual([f"`gpupool release {held}`"], why["changes"])
        server.cli("release", held)
        resumed = server.wait_job(held, ("RUNNING",))
        self.assertGreaterEqual(int(resumed["progress"]["step"]), 100)
        server.cli("requeue", held)
        harness.wait_until(lambda: int(server.job(held)["attempt"]) >= 3,
                           30, "another attempt")
        server.cli("cancel", held)
        server.wait_job(held)
        self.assertIn("submit it again", server.cli("hold", held, code=6))

    def test_jobs_run_after_others_and_fail_with_them(self):
        server = self.start_server()
        first = server.submit(harness.digits_job("first", steps=200000))
        after = server.submit(harness.digits_job("after") + f"after_ok: [{first}]\n")
        anyhow = server.submit(harness.digits_job("anyhow", steps=50)
                               + f"after_any: [{first}]\n")
        self.assertEqual(f"waits for job {first} to succeed",
                         server.job(after)["waiting_reason"])
        harness.wait_until(
            lambda: [f"job {first} ends"] == server.json("why", anyhow)["changes"],
            what="one step to be made alone, so that only the other job is waited for")
        server.cli("cancel", first)
        failed = server.wait_job(after)
        self.assertEqual("FAILED", failed["state"])
        self.assertEqual(f"job {first}, after which it was to run, was cancelled",
                         failed["error"]["message"])
        self.assertEqual("SUCCEEDED", server.wait_job(anyhow)["state"])
        path = server.state / "late.yaml"
        path.write_text(harness.digits_job("late") + f"after_ok: [{first}]\n")
        self.assertIn(f"job {first}", server.cli("submit", path, code=6))
        path.write_text(harness.digits_job("never") + "after_ok: [99]\n")
        server.cli("submit", path, code=3)

    def test_limits_end_jobs_with_their_checkpoint_kept(self):
        server = self.start_server()
        spec = harness.digits_job(steps=2000000, checkpoint_every_steps=0)
        running = server.submit(spec)
        late = server.submit(harness.digits_job("late") + 'start_before: "'
                             + time.strftime("%Y-%m-%dT%H:%M:%SZ",
                                             time.gmtime(time.time() + 10)) + '"\n')
        ended = server.wait_job(late)
        self.assertEqual("FAILED", ended["state"])
        self.assertIn("was not started before", ended["error"]["message"])
        server.cli("cancel", running)
        ended = server.wait_job(server.submit(spec + "max_run_seconds: 1\n"))
        self.assertEqual("FAILED", ended["state"])
        self.assertIn("max_run_seconds of 1", ended["error"]["message"])
        self.assertIn("is kept", ended["error"]["message"])
        self.assertGreater(int(ended["last_checkpoint"]["step"]), 0)

    def test_why_tells_what_is_in_the_way(self):
        server = self.start_server()
        running = server.submit(harness.digits_job("running", steps=200000))
        server.wait_step(running, 1)
        first = server.submit(harness.digits_job("first"))
        second = server.submit(harness.digits_job("second"))
        why = server.json("why", second)
        self.assertEqual((2, [str(first)]), (int(why["position"]), why["ahead"]))
        device = why["devices"][0]
        self.assertGreater(int(device["missing_bytes"]), 0)
        self.assertIn("lacks", device["obstacle"])
        self.assertIn("fifo", why["running"][0]["reason"])
        self.assertTrue(any(c.startswith(f"job {running} ends") for c in why["changes"]))
        text = server.cli("why", second)
        for words in ("place 2 of the queue", f"behind job {first}", "what would change"):
            self.assertIn(words, text)
        for job in (second, first, running):
            server.cli("cancel", job)
        self.assertIn("waits for nothing", server.cli("why", running))


if __name__ == "__main__":
    harness.main()
