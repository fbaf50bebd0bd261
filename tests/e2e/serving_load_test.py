#!/usr/bin/env python3
"""Training gives way to a served model under load and comes back, through the
real processes: nothing that a job computes may depend on it."""
import pathlib
import struct
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402

STEP = dict(batch_size=512, filters=64, checkpoint_every_steps=0,
            report_every_steps=1)


class Load:
    """Calls a model from several threads until it is closed."""

    def __init__(self, server, model, threads=4):
        self.server, self.model = server, model
        self.stop = threading.Event()
        self.answered, self.errors = 0, []
        self.threads = [threading.Thread(target=self.run) for _ in range(threads)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *unused):
        self.stop.set()
        for thread in self.threads:
            thread.join()

    def run(self):
        pb, rpc = harness.stubs()("inference.grpc_service")
        request = pb.ModelInferRequest(model_name=self.model)
        request.inputs.add(name="input", datatype="FP32", shape=[1, 1, 8, 8])
        request.raw_input_contents.append(struct.pack("<64f", *range(64)))
        with self.server.channel() as channel:
            stub = rpc.GRPCInferenceServiceStub(channel)
            while not self.stop.is_set():
                try:
                    stub.ModelInfer(request, timeout=harness.PATIENCE)
                    self.answered += 1
                except Exception as error:  # told by the test's own thread
                    self.errors.append(str(error))
                    return


class ServingLoad(harness.TestCase):
    def files(self, server, job):
        manifest = server.manifest(job["last_checkpoint"]["manifest_sha256"])
        return {f["role"]: f["sha256"] for f in manifest["files"]}

    def serving_preemptions(self, server):
        line = 'gpupool_preemptions_total{reason="serving"} '
        return int(next(text[len(line):] for text in server.metrics().splitlines()
                        if text.startswith(line)))

    def test_training_leaves_under_load_and_comes_back_with_the_same_bits(self):
        # Every wait for a training step is too long here.
        server = self.start("--devices", "cpu:1", "--min-run", "0",
                            "--serving-target-delay", "0.001")
        server.upload_digits()
        server.wait_job(server.submit(harness.digits_job("served", steps=20,
                                                         publish="true")))
        server.cli("models", "load", "served", "--wait")
        # The number of steps that take about 20 seconds on this machine.
        probe = server.wait_job(server.submit(
            harness.digits_job("probe", steps=20, **STEP)))
        seconds = max(float(probe["run_seconds"]), 0.05)
        steps = int(20 * 20 / seconds) + 20
        spec = dict(steps=steps, **STEP)
        calm = server.wait_job(server.submit(harness.digits_job("calm", **spec)),
                               seconds=300)
        self.assertEqual("SUCCEEDED", calm["state"], calm)
        self.assertEqual(0, self.serving_preemptions(server))

        job = server.submit(harness.digits_job("long", **spec))
        server.wait_step(job, 2)
        with Load(server, "served") as load:
            harness.wait_until(lambda: server.job(job)["state"] == "QUEUED", 120,
                               "the job to give way")
            answered = load.answered
            self.assertIn("is left to model 'served' version 1",
                          server.job(job)["waiting_reason"])
            why = server.json("why", job)
            self.assertIn("under load", why["devices"][0]["obstacle"])
            self.assertIn("the load on model 'served' version 1 goes down",
                          why["changes"])
            self.assertIn('gpupool_inference_under_load{model="served",version="1"} 1',
                          server.metrics())
            harness.wait_until(lambda: load.answered > answered + 500, 120,
                               "requests that are answered without training")
            self.assertEqual("QUEUED", server.job(job)["state"])
        self.assertEqual([], load.errors)
        done = server.wait_job(job, seconds=300)
        self.assertEqual("SUCCEEDED", done["state"], done)
        self.assertEqual(2, int(done["attempt"]))
        self.assertEqual(self.files(server, calm), self.files(server, done))
        self.assertEqual(1, self.serving_preemptions(server))
        logs = server.cli("logs", job)
        self.assertIn("preempted by model 'served' version 1, which is under load",
                      logs)

    def test_a_model_gets_the_bytes_of_a_job_that_fits_elsewhere(self):
        server = self.start("--devices", "cpu:2", "--min-run", "0")
        server.upload_digits()
        trained = server.wait_job(server.submit(harness.digits_job("m", steps=20,
                                                                   publish="true")))
        self.assertEqual("SUCCEEDED", trained["state"])
        server.cli("models", "load", "m", "--wait")
        server.cli("models", "unload", "m")
        harness.wait_until(
            lambda: all(not d.get("model_version_ids") for d in server.devices()),
            30, "the model to be unloaded")
        plan = server.json("plan", self.job_file(server))["plan"]
        need = int(plan["training"]["peak"])
        for name, share in (("cpu:0", 1.05), ("cpu:1", 1.05)):
            limit = next(int(d["limit_bytes"]) for d in server.devices()
                         if d["name"] == name)
            server.cli("devices", "fraction", name, f"{share * need / limit:.9f}")
        jobs = [server.submit(harness.digits_job(f"j{i}", steps=200000))
                for i in range(2)]
        for job in jobs:
            server.wait_step(job, 1)
        server.cli("models", "load", "m", "--wait")
        self.assertEqual(1, self.serving_preemptions(server))
        states = sorted(server.job(job)["state"] for job in jobs)
        self.assertEqual(["QUEUED", "RUNNING"], states)
        waits = next(job for job in jobs if server.job(job)["state"] == "QUEUED")
        self.assertIn("which needs its memory", server.cli("logs", waits))
        other = next(job for job in jobs if job != waits)
        server.cli("cancel", other)
        server.wait_job(waits, ("RUNNING",))
        server.cli("cancel", waits)

    def job_file(self, server):
        path = server.state / "probe.yaml"
        path.write_text(harness.digits_job("probe"))
        return path


if __name__ == "__main__":
    harness.main()
