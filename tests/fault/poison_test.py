#!/usr/bin/env python3
"""Versions that end the process that loads them: they are refused or given up,
and hurt neither other models nor training jobs."""
import collections
import os
import pathlib
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import harness  # noqa: E402


class Poison(harness.TestCase):
    def setUp(self):
        import grpc
        super().setUp()
        self.grpc = grpc
        folder = tempfile.TemporaryDirectory(prefix="gpupool-poison-")
        self.addCleanup(folder.cleanup)
        self.fault = pathlib.Path(folder.name) / "fault"
        os.environ["GPUPOOL_INJECT_FAULT_FILE"] = str(self.fault)
        self.addCleanup(os.environ.pop, "GPUPOOL_INJECT_FAULT_FILE")
        os.environ["GPUPOOL_REHEARSAL_SECONDS"] = "20"
        self.addCleanup(os.environ.pop, "GPUPOOL_REHEARSAL_SECONDS")
        self.server = self.start("--devices", "cpu:1")
        self.server.upload_digits()
        self.publish("good")
        self.pb, services = harness.stubs()("inference.grpc_service")
        channel = self.server.channel()
        self.addCleanup(channel.close)
        self.stub = services.GRPCInferenceServiceStub(channel)
        self.answers = collections.Counter()
        self.stop = threading.Event()

    def publish(self, model):
        job = self.server.wait_job(self.server.submit(
            harness.digits_job(model, steps=20, publish="true")))
        self.assertEqual("SUCCEEDED", job["state"], job)
        if model == "good":
            self.server.cli("models", "load", model, "--wait")

    def version(self, model):
        return self.server.json("models", "get", model)["versions"][0]

    def ask(self):
        request = self.pb.ModelInferRequest(model_name="good")
        request.inputs.add(name="input", datatype="FP32", shape=[1, 1, 8, 8])
        request.raw_input_contents.append(bytes(64 * 4))
        while not self.stop.is_set():
            try:
                self.stub.ModelInfer(request, timeout=harness.PATIENCE)
                self.answers["OK"] += 1
            except self.grpc.RpcError as error:
                self.answers[error.code().name] += 1
                self.stop.wait(0.01)

    def under_load(self):
        """Asks the good model until the test ends, beside a training job that
        may not fail once. Returns the job."""
        job = self.server.submit(
            harness.digits_job("bystander", steps=1000000, max_attempts=1))
        self.server.wait_step(job, 20)
        clients = [threading.Thread(target=self.ask) for _ in range(4)]
        for client in clients:
            client.start()

        def end():
            self.stop.set()
            for client in clients:
                client.join()
        self.addCleanup(end)
        self.answered(50)
        return job

    def answered(self, count):
        target = self.answers["OK"] + count
        harness.wait_until(lambda: self.answers["OK"] >= target, 60,
                           f"{count} more answers")

    def test_an_upload_that_ends_its_process_is_refused_and_nobody_notices(self):
        path = self.server.state / "good.onnx"
        self.server.cli("models", "export", "good", "--file", path)
        job = self.under_load()
        pid = self.server.worker_pids()["cpu:0"]
        self.fault.write_text("abort-load bad/0")
        refused = self.server.cli("models", "upload", "bad", path, code=2)
        self.assertIn('model "bad" is refused', refused)
        self.assertIn("signal 6", refused)
        self.assertNotIn("bad", self.server.cli("models", "list"))
        self.answered(50)
        self.assertEqual({"OK"}, set(self.answers))
        self.assertEqual(pid, self.server.worker_pids()["cpu:0"])
        self.assertEqual(1, self.server.job(job)["attempt"])
        # The same file without the fault is well.
        self.fault.unlink()
        self.server.cli("models", "upload", "bad", path)

    def test_an_upload_that_hangs_is_refused_and_nobody_notices(self):
        path = self.server.state / "good.onnx"
        self.server.cli("models", "export", "good", "--file", path)
        job = self.under_load()
        self.fault.write_text("hang-load bad/0")
        refused = self.server.cli("models", "upload", "bad", path, code=2)
        self.assertIn('model "bad" is refused', refused)
        self.assertIn("took too long", refused)
        self.answered(50)
        self.assertEqual({"OK"}, set(self.answers))
        self.assertEqual(1, self.server.job(job)["attempt"])

    def test_a_version_that_ends_its_rehearsal_is_given_up_for_good(self):
        self.fault.write_text("abort-load bad/1")
        job = self.under_load()
        self.publish("bad")
        harness.wait_until(
            lambda: self.version("bad")["state"] == "LOAD_FAILED", 60,
            "the version to be given up")
        self.assertIn("signal 6", self.version("bad")["error"])
        self.assertIn("`gpupool models load bad/1`", self.version("bad")["error"])
        # It was rehearsed first, so no worker of a device has ended.
        self.answered(50)
        self.assertEqual({"OK"}, set(self.answers))
        self.assertEqual(0, self.server.devices()[0].get("worker_restarts", 0))
        self.assertEqual(1, self.server.wait_job(job, ("RUNNING",))["attempt"])
        # Nothing is tried again, also after a restart.
        self.stop.set()
        self.server.kill()
        self.server.start()
        self.assertEqual("LOAD_FAILED", self.version("bad")["state"])
        # Until somebody asks.
        self.fault.unlink()
        self.server.cli("models", "load", "bad", "--wait")


if __name__ == "__main__":
    harness.main()
