#!/usr/bin/env python3
"""kill -9 of the daemon: training goes on, nothing acknowledged is lost."""
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import harness  # noqa: E402


class KillDaemon(harness.TestCase):
    def test_a_running_job_is_adopted_and_not_restarted(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        job = server.submit(harness.digits_job(steps=6000, checkpoint_every_steps=500))
        server.wait_step(job, 100)
        workers = server.worker_pids()
        server.kill()
        self.assertEqual(workers, server.worker_pids(), "workers outlive the daemon")

        server.start()
        done = server.wait_job(job)
        self.assertEqual("SUCCEEDED", done["state"], done)
        self.assertEqual(1, done["attempt"], "the first attempt went on")
        self.assertEqual(workers["cpu:0"], server.worker_pids()["cpu:0"])

    def test_a_job_that_ends_while_no_daemon_runs_is_reported_later(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        job = server.submit(harness.digits_job(steps=1500))
        server.wait_step(job, 100)
        server.kill()
        # No daemon listens, so the worker ends the job alone.
        harness.wait_until(
            lambda: any(report.job_id == job and report.HasField("ended")
                        for report in server.spooled_reports("cpu:0")),
            what="the end of the job in the worker's spool")
        server.start()
        done = server.wait_job(job)
        self.assertEqual(("SUCCEEDED", 1), (done["state"], done["attempt"]))
        steps = [int(e["progress"]["step"]) for e in self.events(server, job)
                 if "progress" in e]
        self.assertEqual(sorted(steps), steps)

    def events(self, server, job):
        load = harness.stubs()
        pb, rpc = load("gpupool.v1.job")
        from google.protobuf import json_format
        stub = rpc.JobServiceStub(server.channel())
        events = [json_format.MessageToDict(e, preserving_proto_field_name=True)
                  for e in stub.WatchJob(pb.WatchJobRequest(id=job), timeout=harness.PATIENCE)]
        sequences = [int(e["sequence"]) for e in events]
        self.assertEqual(list(range(1, len(sequences) + 1)), sequences,
                         "events have no gap")
        return events

    def test_acknowledged_jobs_survive_kills_under_load(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        acknowledged, lock = [], threading.Lock()
        spec = harness.digits_job(steps=5, checkpoint_every_steps=0)
        path = server.state / "load.yaml"
        path.write_text(spec)

        for kill in range(3):
            stop = threading.Event()

            def client():
                while not stop.is_set():
                    try:
                        job = server.json("--timeout", "2", "submit", path)
                    except (harness.CommandFailed, ValueError):
                        continue  # not acknowledged
                    with lock:
                        acknowledged.append(int(job["id"]))

            threads = [threading.Thread(target=client) for _ in range(3)]
            for thread in threads:
                thread.start()
            harness.wait_until(lambda: len(acknowledged) >= 10 * (kill + 1), 60,
                               "submissions")
            server.kill()
            stop.set()
            for thread in threads:
                thread.join()
            server.start()

        self.assertEqual(len(acknowledged), len(set(acknowledged)), "ids are not reused")
        for job in acknowledged:
            self.assertEqual("SUCCEEDED", server.wait_job(job, seconds=120)["state"])

    def test_a_served_model_is_served_again(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        server.wait_job(server.submit(harness.digits_job(steps=100, publish="true")))
        server.cli("models", "load", "digits", "--wait")
        infer = ("models", "infer", "digits", "--data", harness.DIGITS,
                 "--rows", "last:20")
        before = server.json(*infer)
        server.kill()
        server.start()
        server.cli("models", "load", "digits", "--wait")
        self.assertEqual(before["accuracy"], server.json(*infer)["accuracy"])


if __name__ == "__main__":
    harness.main()
