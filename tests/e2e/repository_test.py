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


def pre_model():
    """Returns a model that turns four bytes into numbers from 0 to 1."""
    return make_model(
        [helper.make_node("Cast", ["raw"], ["float"], name="cast", to=TensorProto.FLOAT),
         helper.make_node("Mul", ["float", "scale"], ["pixels"], name="scale_pixels")],
        [("raw", TensorProto.INT32, ["batch", 4])],
        [("pixels", TensorProto.FLOAT, ["batch", 4])],
        {"scale": np.array([1 / 255], np.float32)})


def net_model():
    """Returns a model that makes three scores of four numbers."""
    weight = np.random.default_rng(5).standard_normal((4, 3)).astype(np.float32)
    return make_model(
        [helper.make_node("MatMul", ["pixels", "weight"], ["scores"], name="product")],
        [("pixels", TensorProto.FLOAT, ["batch", 4])],
        [("scores", TensorProto.FLOAT, ["batch", 3])], {"weight": weight})


def post_model():
    """Returns a model that makes odds and the best class of three scores."""
    return make_model(
        [helper.make_node("Softmax", ["scores"], ["odds"], name="softmax", axis=1),
         helper.make_node("ArgMax", ["scores"], ["best"], name="best", axis=1, keepdims=1)],
        [("scores", TensorProto.FLOAT, ["batch", 3])],
        [("odds", TensorProto.FLOAT, ["batch", 3]), ("best", TensorProto.INT64, ["batch", 1])],
        {})


def sum_model():
    """Returns a model that adds two times three numbers."""
    return make_model(
        [helper.make_node("Add", ["a", "b"], ["y"], name="add")],
        [("a", TensorProto.FLOAT, ["batch", 3]), ("b", TensorProto.FLOAT, ["batch", 3])],
        [("y", TensorProto.FLOAT, ["batch", 3])], {})


def step(model, inputs, outputs):
    """Returns the text of a step; `inputs` and `outputs` map names of the model to
    tensors of the ensemble."""
    maps = [f'{kind} {{ key: "{name}" value: "{tensor}" }}'
            for kind, names in (("input_map", inputs), ("output_map", outputs))
            for name, tensor in names.items()]
    return f'step {{ model_name: "{model}" model_version: -1 {" ".join(maps)} }}'


def ensemble(inputs, outputs, *steps):
    """Returns a config.pbtxt; `inputs` and `outputs` map names to (type, dims)."""
    tensors = [f'{kind} {{ name: "{name}" data_type: {of_type} dims: {dims} }}'
               for kind, names in (("input", inputs), ("output", outputs))
               for name, (of_type, dims) in names.items()]
    return "\n".join(['platform: "ensemble"', "max_batch_size: 8", *tensors,
                      "ensemble_scheduling {", *steps, "}"])


PIPELINE = ensemble(
    {"RAW": ("TYPE_INT32", [4])},
    {"ODDS": ("TYPE_FP32", [-1]), "BEST": ("TYPE_INT64", [1]), "s": ("TYPE_FP32", [3])},
    # Steps may be in any order.
    step("post", {"scores": "s"}, {"odds": "ODDS", "best": "BEST"}),
    step("pre", {"raw": "RAW"}, {"pixels": "p"}),
    step("net", {"pixels": "p"}, {"scores": "s"}))

DIAMOND = ensemble(
    {"x": ("TYPE_FP32", [3])}, {"y": ("TYPE_FP32", [3])},
    step("top", {"x": "x"}, {"y": "m"}),
    step("left", {"x": "m"}, {"y": "l"}),
    step("right", {"x": "m"}, {"y": "r"}),
    step("sum", {"a": "l", "b": "r"}, {"y": "y"}))


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
        self.put("field", 1, 2, "model_warmup { }")
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
                             ("field", "model_warmup is not supported"),
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

    # ------------------------------------------------------------- ensembles

    def put_model(self, name, model):
        place = self.folder / name / "1"
        place.mkdir(parents=True, exist_ok=True)
        onnx.save(model, str(place / ".new"))
        (place / ".new").rename(place / "model.onnx")

    def put_ensemble(self, name, config):
        """Writes a config and an empty folder of version 1."""
        (self.folder / name / "1").mkdir(parents=True, exist_ok=True)
        (self.folder / name / ".new").write_text(config)
        (self.folder / name / ".new").rename(self.folder / name / "config.pbtxt")

    def put_pipeline(self):
        self.put_model("pre", pre_model())
        self.put_model("net", net_model())
        self.put_model("post", post_model())
        self.put_ensemble("pipeline", PIPELINE)

    def put_diamond(self):
        for name, factor in (("top", 0.1), ("left", 0.3), ("right", 7)):
            self.put_model(name, times(factor))
        self.put_model("sum", sum_model())
        self.put_ensemble("diamond", DIAMOND)

    def wait_served(self, server, model):
        harness.wait_until(lambda: self.ready(server, f"models/{model}"),
                           what=f"{model} to be ready")

    def by_hand(self, server, raw):
        """Returns what the pipeline answers, by a call to each of its steps."""
        pixels = self.infer(server, "pre", {"raw": raw})["pixels"]
        scores = self.infer(server, "net", {"pixels": pixels})["scores"]
        answer = self.infer(server, "post", {"scores": scores})
        return {"ODDS": answer["odds"], "BEST": answer["best"], "s": scores}

    def test_an_ensemble_answers_as_its_steps_by_hand(self):
        self.put_pipeline()
        server = self.serve("none")
        self.wait_served(server, "pipeline")
        rng = np.random.default_rng(11)
        for rows in (1, 3, 8):
            raw = rng.integers(0, 256, (rows, 4)).astype(np.int32)
            wanted = self.by_hand(server, raw)
            answer = self.infer(server, "pipeline", {"RAW": raw})
            self.assertEqual({"ODDS", "BEST", "s"}, set(answer))
            for name, array in answer.items():
                self.assertEqual(wanted[name].shape, array.shape, name)
                self.assertEqual(wanted[name].tobytes(), array.tobytes(), name)
        self.assertEqual("READY", self.index(server)["pipeline", "1"][0])
        pb, rpc = harness.stubs()("inference.grpc_service")
        counts = {model: self.call(server, "ModelStatistics",
                                   pb.ModelStatisticsRequest(name=model)).model_stats[0]
                  for model in ("pipeline", "net")}
        self.assertEqual(12, counts["pipeline"].inference_count)
        self.assertEqual(3, counts["pipeline"].execution_count)
        self.assertEqual(24, counts["net"].inference_count)
        self.assertGreater(counts["pipeline"].inference_stats.compute_infer.ns, 0)
        config = self.call(server, "ModelConfig", pb.ModelConfigRequest(name="pipeline")).config
        self.assertEqual("ensemble", config.platform)
        self.assertEqual(["post", "pre", "net"],
                         [s.model_name for s in config.ensemble_scheduling.step])
        # Requests of a stream take the same way.
        raw = np.arange(4, dtype=np.int32).reshape(1, 4)
        request = pb.ModelInferRequest(model_name="pipeline", raw_input_contents=[raw.tobytes()])
        request.inputs.add(name="RAW", datatype="INT32", shape=raw.shape)
        request.outputs.add(name="BEST")
        with server.channel() as channel:
            answers = list(rpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(
                iter([request, request]), timeout=harness.PATIENCE))
        wanted = self.by_hand(server, raw)["BEST"].tobytes()
        self.assertEqual(["", ""], [answer.error_message for answer in answers])
        for answer in answers:
            self.assertEqual([wanted], list(answer.infer_response.raw_output_contents))

    def test_a_diamond_joins_what_two_steps_give(self):
        import grpc
        self.put_diamond()
        server = self.serve("none")
        self.wait_served(server, "diamond")
        x = np.random.default_rng(12).standard_normal((5, 3)).astype(np.float32)
        top = self.infer(server, "top", {"x": x})["y"]
        wanted = self.infer(server, "sum", {
            "a": self.infer(server, "left", {"x": top})["y"],
            "b": self.infer(server, "right", {"x": top})["y"]})["y"]
        self.assertEqual(wanted.tobytes(), self.infer(server, "diamond", {"x": x})["y"].tobytes())
        one = [float(v) for v in x[0]]
        over_http = np.array([self.infer_over_http(server, "diamond", one)], np.float32)
        by_grpc = self.infer(server, "diamond", {"x": x[:1]})["y"]
        self.assertEqual(by_grpc.tobytes(), over_http.tobytes())
        for wrong in (np.ones((9, 3), np.float32), np.ones((1, 4), np.float32)):
            with self.assertRaises(grpc.RpcError) as refused:
                self.infer(server, "diamond", {"x": wrong})
            self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT, refused.exception.code())
            self.assertIn("'diamond' version 1", refused.exception.details())

    def test_an_ensemble_comes_and_goes_with_its_steps(self):
        self.put_diamond()
        self.put_ensemble("waits", ensemble(
            {"x": ("TYPE_FP32", [3])}, {"y": ("TYPE_FP32", [3])},
            step("top", {"x": "x"}, {"y": "m"}), step("later", {"x": "m"}, {"y": "y"})))
        server = self.serve("poll")
        self.wait_served(server, "diamond")
        harness.wait_until(
            lambda: "step 2 (model 'later')" in self.index(server)["waits", "1"][1],
            what="the reason in the index")
        self.put_model("later", times(2))
        self.wait_served(server, "waits")
        shutil.rmtree(self.folder / "later")
        harness.wait_until(lambda: not self.ready(server, "models/waits"),
                           what="the ensemble to be unready")
        state, reason = self.index(server)["waits", "1"]
        self.assertEqual("UNAVAILABLE", state)
        self.assertIn("step 2 (model 'later')", reason)
        self.assertTrue(self.ready(server, "models/diamond"))
        shutil.rmtree(self.folder / "diamond")
        harness.wait_until(lambda: not self.ready(server, "models/diamond"),
                           what="the ensemble to be forgotten")
        self.assertTrue(self.ready(server, "models/top"))

    def test_explicit_loads_and_unloads_an_ensemble_with_its_steps(self):
        self.put_diamond()
        server = self.serve("explicit")
        self.assertEqual({"UNAVAILABLE"}, {state for state, _ in self.index(server).values()})
        self.load(server, "diamond")
        self.assertTrue(self.ready(server, "models/diamond"))
        self.assertTrue(self.ready(server, "models/left"))
        pb, _ = harness.stubs()("inference.grpc_service")
        unload = pb.RepositoryModelUnloadRequest(model_name="diamond")
        self.call(server, "RepositoryModelUnload", unload)
        self.assertFalse(self.ready(server, "models/diamond"))
        self.assertTrue(self.ready(server, "models/left"))
        self.load(server, "diamond")
        self.assertTrue(self.ready(server, "models/diamond"))
        unload.parameters["unload_dependents"].bool_param = True
        self.call(server, "RepositoryModelUnload", unload)
        for model in ("diamond", "top", "left", "right", "sum"):
            self.assertFalse(self.ready(server, f"models/{model}"), model)

    def test_ensembles_that_cannot_be_served_say_why(self):
        self.put_pipeline()
        x, y = {"x": ("TYPE_FP32", [3])}, {"y": ("TYPE_FP32", [3])}
        reasons = {
            "cycle": (ensemble(x, y, step("pre", {"raw": "x", "more": "y"}, {"pixels": "m"}),
                               step("net", {"pixels": "m"}, {"scores": "y"})),
                      "step 1 (model 'pre') needs step 2 (model 'net') needs step 1"),
            "types": (ensemble({"x": ("TYPE_INT32", [4])}, {"y": ("TYPE_FP32", [3])},
                               step("pre", {"raw": "x"}, {"pixels": "m"}),
                               step("post", {"scores": "m"}, {"odds": "y"})),
                      "tensor 'm' is FP32 of shape [-1,4] from step 1"),
            "twice": (ensemble(x, y, step("pipeline", {"RAW": "x"}, {"s": "y"})),
                      "is an ensemble itself"),
            "nowhere": (ensemble(x, y, step("ghost", {"x": "x"}, {"y": "y"})),
                        "step 1 (model 'ghost'): there is no model"),
        }
        for name, (config, _) in reasons.items():
            self.put_ensemble(name, config)
        server = self.serve("none")
        self.wait_served(server, "pipeline")
        index = self.index(server)
        for name, (_, words) in reasons.items():
            state, reason = index[name, "1"]
            self.assertEqual("UNAVAILABLE", state, name)
            self.assertIn(words, reason)


if __name__ == "__main__":
    harness.main()
