#!/usr/bin/env python3
"""Jobs that leave their number of devices open, through the real processes:
they shrink for others, grow again, and compute what one device computes."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402


def job_text(name, devices="", steps=400):
    return f"""
name: {name}
{devices}
model:
  input_shape: [64]
  layers:
    - dense: {{units: 64}}
    - relu
    - dense: {{units: 10}}
data:
  dataset: digits
  held_out: {{every: 5}}
  scaling: standardize
training:
  cross_entropy: {{}}
  adam: {{learning_rate: 0.003}}
  batch_size: 64
  steps: {steps}
  seed: 7
  checkpoint_every_steps: 0
  report_every_steps: 10
"""


ELASTIC = "min_devices: 1\nmax_devices: 2"


class Elastic(harness.TestCase):
    def start_server(self):
        """Starts a server with two devices that have room for one job each."""
        server = self.start("--devices", "cpu:2", "--min-run", "0",
                            "--grow-after", "0", "--restart-cost", "0")
        server.upload_digits()
        path = server.state / "probe.yaml"
        path.write_text(job_text("probe", ELASTIC))
        need = int(server.json("plan", path)["plan"]["training"]["peak"])
        for device in ("cpu:0", "cpu:1"):
            limit = next(int(d["limit_bytes"]) for d in server.devices()
                         if d["name"] == device)
            server.cli("devices", "fraction", device, f"{1.5 * need / limit:.9f}")
        return server

    def events(self, server, job_id):
        pb2, grpc_pb2 = harness.stubs()("gpupool.v1.job")
        with server.channel() as channel:
            stub = grpc_pb2.JobServiceStub(channel)
            return list(stub.WatchJob(pb2.WatchJobRequest(id=job_id)))

    def losses(self, server, job_id):
        return {event.progress.step: event.progress.loss
                for event in self.events(server, job_id)
                if event.WhichOneof("event") == "progress"}

    def wait_devices(self, server, job_id, count):
        """Waits until the job runs on `count` devices. Returns its present step."""
        def reached():
            job = server.job(job_id)
            self.assertNotIn(job["state"], harness.TERMINAL, job)
            return (job["state"] == "RUNNING" and len(job["devices"]) == count
                    and int(job.get("progress", {}).get("step", 0)) > 0)
        harness.wait_until(reached, 90, f"job {job_id} on {count} devices")
        return int(server.job(job_id)["progress"]["step"])

    def test_computes_on_two_devices_what_one_computes(self):
        server = self.start_server()
        job = server.submit(job_text("elastic", ELASTIC))
        done = server.wait_job(job, seconds=300)
        self.assertEqual("SUCCEEDED", done["state"], done)
        self.assertEqual(2, len(done["devices"]), done)
        alone = server.wait_job(server.submit(job_text("alone")), seconds=300)
        self.assertEqual(1, len(alone["devices"]), alone)
        # The rows of every step are the same, so the losses are, too. Quick steps
        # are not all reported, and rounding grows with them: the first one tells.
        ours, theirs = self.losses(server, job), self.losses(server, int(alone["id"]))
        step = min(ours.keys() & theirs.keys())
        self.assertLessEqual(step, 100)
        self.assertAlmostEqual(theirs[step], ours[step], delta=1e-3, msg=f"step {step}")
        self.assertAlmostEqual(float(alone["evaluation"]["accuracy"]),
                               float(done["evaluation"]["accuracy"]), delta=0.05)

    def test_shrinks_for_another_job_and_grows_again(self):
        server = self.start_server()
        # The test ends it, because the speed of one and two devices differs much.
        job = server.submit(job_text("elastic", ELASTIC, steps=10 ** 7))
        self.wait_devices(server, job, 2)
        other = server.submit(job_text("other", steps=10 ** 7))
        server.wait_job(other, ("RUNNING",))
        shrunk = self.wait_devices(server, job, 1)
        self.assertIn('gpupool_preemptions_total{reason="resize"} 1', server.metrics())
        server.wait_step(other, 10)
        server.cli("cancel", other)
        grown = self.wait_devices(server, job, 2)
        self.assertGreater(grown, shrunk)
        server.wait_step(job, grown + 10)
        server.cli("cancel", job)
        done = server.wait_job(job, ("CANCELLED",))
        self.assertEqual(3, int(done["attempt"]))
        # It kept what it had learned: a fresh start has a loss of about 2.3.
        self.assertLess(float(done["progress"]["loss"]), 1)
        # Log lines of long jobs are thinned out, but changes of state are not.
        reasons = [event.state_change.reason for event in self.events(server, job)
                   if event.WhichOneof("event") == "state_change"]
        for word in (f"gives devices to job {other}", "is to have more devices"):
            self.assertTrue(any(word in r for r in reasons), reasons)

    def test_it_keeps_its_devices_when_the_server_starts_again(self):
        server = self.start_server()
        job = server.submit(job_text("elastic", ELASTIC, steps=10 ** 7))
        self.wait_devices(server, job, 2)
        step = int(server.job(job)["progress"]["step"])
        server.kill()  # the workers go on
        server.start()
        self.wait_devices(server, job, 2)
        server.wait_step(job, step + 10)
        self.assertEqual(1, int(server.job(job)["attempt"]))
        server.cli("cancel", job)

    def test_bad_numbers_are_refused(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        for devices, words in (
                ("min_devices: 2", ["max_devices"]),
                ("devices: 2\nmax_devices: 2", ["either"]),
                ("min_devices: 3\nmax_devices: 2", ["min_devices is 3"]),
                ("min_devices: 5\nmax_devices: 7", ["batch_size 64"])):
            path = server.state / "bad.yaml"
            path.write_text(job_text("bad", devices))
            text = server.cli("submit", path, code=2)
            for word in words:
                self.assertIn(word, text)


if __name__ == "__main__":
    harness.main()
