#!/usr/bin/env python3
"""A device is drained and resumed, with the real processes."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402


class Drain(harness.TestCase):
    def device(self, server, name):
        return next(d for d in server.devices() if d["name"] == name)

    def where(self, server, job_id):
        """Returns the job's device, or nothing while it has none."""
        return next((d["name"] for d in server.devices()
                     if str(job_id) in map(str, d.get("job_ids", []))), None)

    def test_a_job_leaves_and_ends_as_if_nothing_had_been(self):
        hold = self.hold()
        server = self.start("--devices", "cpu:2")
        server.upload_digits()
        spec = dict(steps=3000, checkpoint_every_steps=0)
        calm = server.wait_job(server.submit(harness.digits_job("calm", **spec)))
        hold.at(50)
        job = server.submit(harness.digits_job("moves", **spec))
        hold.wait()
        first = self.where(server, job)
        said = server.cli("devices", "drain", first, "--reason", "new fan")
        self.assertIn(f"{first} is drained; job {job} checkpoints and leaves", said)
        hold.release()
        done = server.wait_job(job)
        self.assertEqual("SUCCEEDED", done["state"], done)
        self.assertEqual(2, int(done["attempt"]))
        self.assertEqual(server.weights_sha256(calm), server.weights_sha256(done))
        self.assertIn("its device is drained", server.cli("logs", job))
        self.assertEqual("DEVICE_DRAINED", self.device(server, first)["state"])
        self.assertIn(f"{first} is drained: new fan", server.cli("devices"))
        metrics = server.metrics()
        self.assertIn(f'gpupool_device_drained{{device="{first}"}} 1', metrics)
        self.assertIn('gpupool_preemptions_total{reason="drain"} 1', metrics)

    def test_it_outlives_the_server_and_ends_when_it_is_resumed(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        server.cli("devices", "drain", "cpu:0", "--reason", "new fan")
        server.kill()
        server.start()
        job = server.submit(harness.digits_job(steps=5))
        why = server.wait_why(job, "cpu:0 is drained (new fan)")
        self.assertIn("`gpupool devices resume cpu:0`", why)
        server.cli("devices", "resume", "cpu:0")
        self.assertEqual("SUCCEEDED", server.wait_job(job)["state"])

    def test_jobs_may_be_let_finish(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        job = server.submit(harness.digits_job(steps=1500))
        server.wait_step(job, 1)
        server.cli("devices", "drain", "cpu:0", "--let-finish")
        done = server.wait_job(job)
        self.assertEqual(("SUCCEEDED", 1), (done["state"], int(done["attempt"])))

    def test_wrong_requests_are_refused(self):
        server = self.start("--devices", "cpu:1")
        self.assertIn('no device "cpu:7"', server.cli("devices", "drain", "cpu:7", code=3))
        self.assertIn("at most 200",
                      server.cli("devices", "drain", "cpu:0", "--reason", "x" * 201, code=2))
        self.assertIn("control characters",
                      server.cli("devices", "drain", "cpu:0", "--reason", "a\nb", code=2))


if __name__ == "__main__":
    harness.main()
