#!/usr/bin/env python3
"""A folder of ONNX models with config.pbtxt files through the real processes."""
import json
import pathlib
import shutil
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402
import models_test  # noqa: E402

if models_test.onnx is not None:
    import numpy as np
    import onnx
    from models_test import TensorProto, helper, make_model

CONFIG = """
platform: "onnxruntime_onnx"
max_batch_size: 4
input [ { name: "x" data_type: TYPE_FP32 dims: [ 3 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 3 ] } ]
dynamic_batching { max_queue_delay_microseconds: 200 }
"""


def times(factor):
    """Returns a model that multiplies three numbers."""
    return make_model(
        [helper.make_node("Mul", ["x", "factor"], ["y"], name="times")],
        [("x", TensorProto.FLOAT, ["batch", 3])], [("y", TensorProto.FLOAT, ["batch", 3])],
        {"factor": np.array([factor], np.float32)})


@unittest.skipIf(models_test.onnx is None,
                 "python3-onnx and python3-numpy are not installed")
class Repository(harness.TestCase):
    infer = models_test.Models.infer

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpupool-models-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def put(self, model, version, factor, config=None):
        """Writes the files, the model's file by a rename."""
        place = self.folder / model / str(version)
        place.mkdir(parents=True, exist_ok=True)
        if config is not None:
            (self.folder / model / "config.pbtxt").write_text(config)
        onnx.save(times(factor), str(place / ".new"))
        (place / ".new").rename(place / "model.onnx")

    def serve(self, mode, *arguments):
        server = self.start("--devices", "cpu:1", "--model-repository", str(self.folder),
                            "--model-control-mode", mode, "--repository-poll", "1",
                            *arguments)
        harness.wait_until(lambda: self.ready(server), what="the server to be ready")
        return server

    def ready(self, server, path="health"):
        url = f"http://127.0.0.1:{server.ports['http_port']}/v2/{path}/ready"
        try:
            return urllib.request.urlopen(url, timeout=harness.PATIENCE).status == 200
        except urllib.error.HTTPError:
            return False

    def call(self, server, method, request):
        _, rpc = harness.stubs()("inference.grpc_service")
        with server.channel() as channel:
            stub = rpc.GRPCInferenceServiceStub(channel)
            return getattr(stub, method)(request, timeout=harness.PATIENCE)

    def index(self, server):
        """Returns (state, reason) by (model, version)."""
        pb, _ = harness.stubs()("inference.grpc_service")
        answer = self.call(server, "RepositoryIndex", pb.RepositoryIndexRequest())
        return {(m.name, m.version): (m.state, m.reason) for m in answer.models}

    def load(self, server, model):
        pb, _ = harness.stubs()("inference.grpc_service")
        self.call(server, "RepositoryModelLoad", pb.RepositoryModelLoadRequest(model_name=model))

    def factor(self, server, model, version=""):
        """Returns by what the served model multiplies; 0 when it is not served."""
        import grpc
        x = np.ones((2, 3), np.float32)
        try:
            return float(self.infer(server, model, {"x": x}, version)["y"][1, 2])
        except grpc.RpcError as error:
            # NOT_FOUND is not here: the server answers as the protocol's others do.
            self.assertIn(error.code(), (grpc.StatusCode.INVALID_ARGUMENT,
                                         grpc.StatusCode.NOT_FOUND,
                                         grpc.StatusCode.UNAVAILABLE), error)
            return 0

    def wait_factor(self, server, wanted, model, version=""):
        harness.wait_until(lambda: self.factor(server, model, version) == wanted,
                           what=f"{model} to multiply by {wanted}")

    def test_none_serves_the_newest_version_and_names_what_is_bad(self):
        self.put("good", 1, 2)
        self.put("good", 3, 5, CONFIG)
        self.put("plain", 1, 7)
        self.put("dims", 1, 2, CONFIG.replace("dims: [ 3 ]", "dims: [ 4 ]", 1))
        self.put("field", 1, 2, "sequence_batching { }")
        (self.folder / "broken/1").mkdir(parents=True)
        (self.folder / "broken/1/model.onnx").write_bytes(b"no model at all")
        (self.folder / "out/1").mkdir(parents=True)
        (self.folder / "out/1/model.onnx").symlink_to(harness.DIGITS)
        server = self.serve("none")
        self.assertEqual(5, self.factor(server, "good"))
        self.assertEqual(0, self.factor(server, "good", "1"))
        self.assertEqual(7, self.factor(server, "plain"))
        pb, _ = harness.stubs()("inference.grpc_service")
        config = self.call(server, "ModelConfig", pb.ModelConfigRequest(name="good")).config
        self.assertEqual(4, config.max_batch_size)
        self.assertEqual(200, config.dynamic_batching.max_queue_delay_microseconds)
        index = self.index(server)
        self.assertEqual("READY", index["good", "3"][0])
        self.assertEqual("UNAVAILABLE", index["good", "1"][0])
        for model, words in (("dims", "dims is [4], the file has [3]"),
                             ("field", "sequence_batching is not supported"),
                             ("broken", "")):
            state, reason = index[model, "1"]
            self.assertEqual("UNAVAILABLE", state, model)
            self.assertIn(words, reason)
            self.assertNotEqual("unloaded", reason, model)
        self.assertIn("leads out of the model repository", server.log())

    def test_a_restart_uploads_nothing_again(self):
        self.put("net", 2, 3)
        server = self.serve("none")
        before = server.json("models", "get", "net")["versions"]
        self.assertEqual(0, server.terminate())
        server.start()
        harness.wait_until(lambda: self.ready(server), what="the server to be ready")
        self.wait_factor(server, 3, "net")
        after = server.json("models", "get", "net")["versions"]
        self.assertEqual([v["id"] for v in before], [v["id"] for v in after])

    def test_poll_takes_what_is_added_changed_and_removed(self):
        self.put("net", 1, 2)
        server = self.serve("poll")
        self.wait_factor(server, 2, "net")
        self.put("net", 2, 3)
        self.wait_factor(server, 3, "net")
        harness.wait_until(lambda: self.factor(server, "net", "1") == 0,
                           what="version 1 to be unloaded")
        self.put("net", 2, 4)
        self.wait_factor(server, 4, "net", "2")
        # A bad file leaves the version as it is.
        (self.folder / "net/2/model.onnx").write_bytes(b"no model at all")
        harness.wait_until(lambda: "is refused model=net version=2" in server.log(),
                           what="the refusal in the log")
        self.assertEqual(4, self.factor(server, "net", "2"))
        shutil.rmtree(self.folder / "net")
        harness.wait_until(lambda: self.factor(server, "net") == 0,
                           what="the model to be unloaded")
        self.assertTrue(self.ready(server))

    def test_explicit_loads_on_request(self):
        import grpc
        self.put("one", 1, 2)
        self.put("two", 4, 3)
        self.put("bad", 1, 2, "backend: \"python\"")
        server = self.serve("explicit")
        self.assertEqual({"UNAVAILABLE"}, {state for state, _ in self.index(server).values()})
        self.assertEqual({("one", "1"), ("two", "4"), ("bad", "1")}, set(self.index(server)))
        self.load(server, "one")
        self.assertEqual(2, self.factor(server, "one"))
        self.assertEqual(0, self.factor(server, "two"))
        server.cli("models", "load", "two", "--wait")
        self.assertEqual(3, self.factor(server, "two", "4"))
        with self.assertRaises(grpc.RpcError) as refused:
            self.load(server, "bad")
        self.assertIn("backend is \"python\"", refused.exception.details())
        with self.assertRaises(grpc.RpcError):
            self.load(server, "unknown")
        # The folder is read again at each load.
        self.put("one", 1, 6)
        self.load(server, "one")
        self.assertEqual(6, self.factor(server, "one", "1"))
        self.assertIn("does not exist", server.cli("models", "load", "unknown", code=3))

    def statistics(self, server, model):
        """Returns the inference_stats of the only version of a model."""
        pb, _ = harness.stubs()("inference.grpc_service")
        answer = self.call(server, "ModelStatistics", pb.ModelStatisticsRequest(name=model))
        return answer.model_stats[0].inference_stats

    def infer_over_http(self, server, model, numbers):
        """Returns the data of the output for one row."""
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, len(numbers)],
                            "data": numbers}]}
        request = urllib.request.Request(
            f"http://127.0.0.1:{server.ports['http_port']}/v2/models/{model}/infer",
            json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=harness.PATIENCE) as answer:
            return json.load(answer)["outputs"][0]["data"]

    def test_equal_requests_are_answered_from_memory(self):
        self.put("net", 1, 3, CONFIG + "response_cache { enable: true }")
        self.put("other", 1, 5)
        server = self.serve("poll", "--response-cache-bytes", "1MiB")
        self.wait_factor(server, 5, "other")
        rng = np.random.default_rng(7)
        x = rng.standard_normal((1, 3)).astype(np.float32)
        first = self.infer(server, "net", {"x": x})["y"]
        second = self.infer(server, "net", {"x": x})["y"]
        self.assertEqual(first.tobytes(), second.tobytes())
        over_http = self.infer_over_http(server, "net", [float(v) for v in x[0]])
        self.assertEqual(first.tobytes(), np.array([over_http], np.float32).tobytes())
        other = np.nextafter(x, np.float32(9))
        moved = self.infer(server, "net", {"x": other})["y"]
        self.assertNotEqual(first.tobytes(), moved.tobytes())
        stats = self.statistics(server, "net")
        self.assertEqual(2, stats.cache_hit.count)
        self.assertEqual(2, stats.cache_miss.count)
        self.assertEqual(4, stats.success.count)
        self.assertEqual(2, stats.compute_infer.count)
        self.assertGreater(stats.cache_hit.ns, 0)
        metrics = server.metrics()
        for line in ('nv_cache_num_hits_per_model{model="net",version="1"} 2',
                     'gpupool_inference_cache_misses_total{model="net",version="1"} 2',
                     'nv_cache_num_misses_per_model{model="other",version="1"} 0',
                     "gpupool_response_cache_answers 2",
                     "gpupool_response_cache_limit_bytes 1048576"):
            self.assertIn(line + "\n", metrics)
        # A file that changed under the same number never gets the old answers.
        self.put("net", 1, 4)
        self.wait_factor(server, 4, "net")
        np.testing.assert_array_equal(4 * x, self.infer(server, "net", {"x": x})["y"])

    def test_a_config_that_wants_a_cache_is_refused_without_one(self):
        self.put("net", 1, 3, "response_cache { enable: true }")
        server = self.serve("none")
        state, reason = self.index(server)["net", "1"]
        self.assertEqual("UNAVAILABLE", state)
        self.assertIn("--response-cache-bytes", reason)

    def test_all_versions_of_a_policy_are_served(self):
        self.put("net", 1, 2, "version_policy { all { } }")
        self.put("net", 5, 3)
        server = self.serve("none")
        self.assertEqual(2, self.factor(server, "net", "1"))
        self.assertEqual(3, self.factor(server, "net", "5"))
        self.assertEqual(3, self.factor(server, "net"))

    def test_a_file_above_the_limit_is_not_read(self):
        self.put("net", 1, 2)
        server = self.serve("none", "--model-limit", "50")
        state, reason = self.index(server)["net", "1"]
        self.assertEqual("UNAVAILABLE", state)
        self.assertIn("--model-limit", reason)
        self.assertEqual([], json.loads(server.cli("models", "list", "-o", "json")).get(
            "models", []))


if __name__ == "__main__":
    harness.main()
