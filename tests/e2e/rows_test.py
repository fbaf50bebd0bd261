#!/usr/bin/env python3
"""Models whose rows influence each other, through the real processes: no
request shares a batch with another."""
import concurrent.futures
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402
import models_test  # noqa: E402

if models_test.onnx is not None:
    import numpy as np
    from models_test import TensorProto, helper, make_model

CLIENTS = 24


def centred(axis):
    """x less its mean, over the batch or within each row."""
    nodes = [helper.make_node("ReduceMean", ["x"], ["mean"], name="mean", axes=[axis]),
             helper.make_node("Sub", ["x", "mean"], ["y"], name="centre")]
    return make_model(nodes, [("x", TensorProto.FLOAT, ["batch", 4])],
                      [("y", TensorProto.FLOAT, ["batch", 4])], {})


@unittest.skipIf(models_test.onnx is None,
                 "python3-onnx and python3-numpy are not installed")
class Rows(harness.TestCase):
    save = models_test.Models.save
    infer = models_test.Models.infer

    def upload(self, server, name, axis):
        # Waiting requests would share a batch, if they may.
        return server.json("models", "upload", name,
                           self.save(server, centred(axis), name + ".onnx"),
                           "--max-batch-size", "8", "--max-queue-delay-microseconds", "20000")

    def check(self, server, model, axis):
        def ask(client):
            x = np.random.default_rng(client).random((1 + client % 3, 4), np.float32)
            return x, self.infer(server, model, {"x": x})["y"]
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
            answers = list(clients.map(ask, range(CLIENTS)))
        for x, y in answers:
            np.testing.assert_allclose(y, x - x.mean(axis, keepdims=True), atol=1e-6)

    def test_every_client_gets_the_answer_that_it_gets_alone(self):
        server = self.start("--devices", "cpu:1")
        version = self.upload(server, "mixing", 0)
        self.assertTrue(version["plan"]["computes_alone"], version)
        warning = version["plan"]["warnings"][0]
        self.assertIn("'mean' (reduce)", warning)
        got = subprocess.run([harness.BIN / "gpupool", "--address", server.address,
                              "models", "get", "mixing"], capture_output=True, text=True)
        self.assertIn(f"warning: mixing/1: {warning}", got.stderr)
        self.check(server, "mixing", 0)
        self.assertEqual(CLIENTS, self.batches(server, "mixing"))

    def test_rows_that_are_apart_share_batches(self):
        server = self.start("--devices", "cpu:1")
        version = self.upload(server, "apart", 1)
        self.assertFalse(version["plan"].get("computes_alone"), version)
        self.assertFalse(version["plan"].get("warnings"), version)
        self.check(server, "apart", 1)
        self.assertLess(self.batches(server, "apart"), CLIENTS)

    def batches(self, server, model):
        pb, rpc = harness.stubs()("inference.grpc_service")
        with server.channel() as channel:
            answer = rpc.GRPCInferenceServiceStub(channel).ModelStatistics(
                pb.ModelStatisticsRequest(name=model), timeout=harness.PATIENCE)
        return answer.model_stats[0].execution_count


if __name__ == "__main__":
    harness.main()
