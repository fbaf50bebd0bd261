#!/usr/bin/python3
"""kill -9 of a worker while clients ask for inference: what was in flight is
tried again, new requests wait for the next worker, and nothing hangs. A request
is refused only after it has waited.

    worker_loss_test.py --bin BUILD/bin
"""
import collections
import os
import pathlib
import signal
import sys
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "e2e"))
import harness  # noqa: E402


class WorkerLoss(harness.TestCase):
    def setUp(self):
        import grpc
        self.grpc = grpc
        self.server = self.start("--devices", "cpu:1")
        self.server.upload_digits()
        job = self.server.wait_job(self.server.submit(
            harness.digits_job("digits", steps=50, publish="true")))
        self.assertEqual("SUCCEEDED", job["state"], job)
        self.server.cli("models", "load", "digits", "--wait")
        self.pb, services = harness.stubs()("inference.grpc_service")
        channel = self.server.channel()
        self.addCleanup(channel.close)
        self.stub = services.GRPCInferenceServiceStub(channel)
        self.answers = collections.Counter()
        self.refused_at_once = []
        self.stop = threading.Event()

    def request(self):
        request = self.pb.ModelInferRequest(model_name="digits")
        request.inputs.add(name="input", datatype="FP32", shape=[1, 1, 8, 8])
        request.raw_input_contents.append(bytes(64 * 4))
        return request

    def ask(self):
        request = self.request()
        while not self.stop.is_set():
            try:
                # One that is never answered ends as DEADLINE_EXCEEDED, which
                # the test allows for no answer.
                self.stub.ModelInfer(request, timeout=harness.PATIENCE)
                self.answers["OK"] += 1
            except self.grpc.RpcError as error:
                self.answers[error.code().name] += 1
                if "was lost and not back after" not in error.details():
                    self.refused_at_once.append(error.details())
                self.stop.wait(0.01)

    def answered(self, count):
        target = self.answers["OK"] + count
        harness.wait_until(lambda: self.answers["OK"] >= target, 30,
                           f"{count} more answers")

    def test_requests_survive_the_loss_of_their_worker(self):
        clients = [threading.Thread(target=self.ask) for _ in range(8)]
        for client in clients:
            client.start()
        try:
            for _ in range(2):
                self.answered(100)
                os.kill(self.server.worker_pids()["cpu:0"], signal.SIGKILL)
            self.answered(100)
        finally:
            self.stop.set()
            for client in clients:
                client.join()
        self.assertLessEqual(set(self.answers), {"OK", "UNAVAILABLE"})
        self.assertEqual([], self.refused_at_once)


if __name__ == "__main__":
    harness.main()
