#!/usr/bin/env python3
"""Decoupled models through the real processes: requests with any number of responses."""
import json
import pathlib
import queue
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402
import models_test  # noqa: E402
import stages_test  # noqa: E402

if models_test.onnx is not None:
    import numpy as np
    import onnx

REPEAT = """
backend: "repeat"
model_transaction_policy { decoupled: true }
input [ { name: "IN" data_type: TYPE_INT32 dims: [ -1 ] },
        { name: "DELAY" data_type: TYPE_UINT32 dims: [ -1 ] },
        { name: "WAIT" data_type: TYPE_UINT32 dims: [ 1 ] } ]
output [ { name: "OUT" data_type: TYPE_INT32 dims: [ 1 ] },
         { name: "IDX" data_type: TYPE_UINT32 dims: [ 1 ] } ]
"""
DECOUPLED = "model_transaction_policy { decoupled: true }"
MINUTE = 60_000


def walk(n):
    """Returns what the loop of stages_test.counter gives for n."""
    rows = []
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        rows.append(n)
    return rows


@unittest.skipIf(models_test.onnx is None,
                 "python3-onnx and python3-numpy are not installed")
class Decoupled(harness.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpupool-decoupled-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for model, config in (("repeat", REPEAT), ("counter", DECOUPLED)):
            (self.folder / model / "1").mkdir(parents=True)
            (self.folder / model / "config.pbtxt").write_text(config)
        onnx.save(stages_test.counter(), str(self.folder / "counter/1/model.onnx"))

    def serve(self):
        server = self.start("--devices", "cpu:1", "--model-repository", str(self.folder))
        for model in ("repeat", "counter"):
            harness.wait_until(lambda model=model: self.ready(server, model),
                               what=f"{model} to be ready")
        return server

    def ready(self, server, model):
        try:
            with urllib.request.urlopen(self.url(server, f"{model}/ready"),
                                        timeout=harness.PATIENCE) as answer:
                return answer.status == 200
        except urllib.error.HTTPError:
            return False

    def url(self, server, path):
        return f"http://127.0.0.1:{server.ports['http_port']}/v2/models/{path}"

    def post(self, server, path, body):
        """Returns (status, text)."""
        request = urllib.request.Request(self.url(server, path), json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, timeout=harness.PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def events(self, server, path, body):
        status, text = self.post(server, path, body)
        self.assertEqual(200, status, text)
        events = [event for event in text.split("\n\n") if event]
        return [json.loads(event.removeprefix("data: ")) for event in events]

    def request(self, model, final=False, request_id="", **tensors):
        pb, _ = harness.stubs()("inference.grpc_service")
        request = pb.ModelInferRequest(model_name=model, id=request_id)
        for name, array in tensors.items():
            kind = {"int32": "INT32", "uint32": "UINT32", "int64": "INT64"}[str(array.dtype)]
            request.inputs.add(name=name, datatype=kind, shape=list(array.shape))
            request.raw_input_contents.append(array.tobytes())
        if final:
            request.parameters["triton_enable_empty_final_response"].bool_param = True
        return request

    def repeat(self, elements, delay=0, wait=0, **options):
        return self.request("repeat", IN=np.array(elements, np.int32),
                            DELAY=np.full(len(elements), delay, np.uint32),
                            WAIT=np.array([wait], np.uint32), **options)

    def stub(self, channel):
        _, rpc = harness.stubs()("inference.grpc_service")
        return rpc.GRPCInferenceServiceStub(channel)

    def ask(self, stub, *requests):
        answers = list(stub.ModelStreamInfer(iter(requests), timeout=harness.PATIENCE))
        self.assertEqual([""] * len(answers), [a.error_message for a in answers])
        return [answer.infer_response for answer in answers]

    def outputs(self, answer):
        types = {"INT32": np.int32, "UINT32": np.uint32, "INT64": np.int64}
        return {output.name: np.frombuffer(raw, types[output.datatype]).tolist()
                for output, raw in zip(answer.outputs, answer.raw_output_contents)}

    def is_final(self, answer):
        return answer.parameters["triton_final_response"].bool_param

    def test_each_element_is_a_response_and_the_end_is_told(self):
        server = self.serve()
        with server.channel() as channel:
            stub = self.stub(channel)
            answers = self.ask(stub, self.repeat([4, 2, 7], delay=1, request_id="a"))
            self.assertEqual([{"OUT": [4], "IDX": [0]}, {"OUT": [2], "IDX": [1]},
                              {"OUT": [7], "IDX": [2]}], list(map(self.outputs, answers)))
            self.assertEqual(["a"] * 3, [answer.id for answer in answers])
            self.assertEqual([False] * 3, list(map(self.is_final, answers)))
            answers = self.ask(stub, self.repeat([5], final=True))
            self.assertEqual([{"OUT": [5], "IDX": [0]}, {}], list(map(self.outputs, answers)))
            self.assertEqual([False, True], list(map(self.is_final, answers)))
            # No element, no response.
            self.assertEqual([], self.ask(stub, self.repeat([])))
            answers = self.ask(stub, self.repeat([], final=True))
            self.assertEqual([{}], list(map(self.outputs, answers)))
            self.assertEqual([True], list(map(self.is_final, answers)))

    def test_each_iteration_of_a_loop_is_a_response(self):
        server = self.serve()
        with server.channel() as channel:
            stub = self.stub(channel)
            for n in (7, 2, 1):
                rows = walk(n)
                wanted = [{"rows": [row]} for row in rows] or [{}]
                wanted[-1]["steps"] = [len(rows)]
                answers = self.ask(stub, self.request("counter", n=np.array(n, np.int64)))
                self.assertEqual(wanted, list(map(self.outputs, answers)))
            pb, _ = harness.stubs()("inference.grpc_service")
            asked = pb.ModelConfigRequest(name="counter")
            config = stub.ModelConfig(asked, timeout=harness.PATIENCE).config
            self.assertTrue(config.model_transaction_policy.decoupled)
            stats = stub.ModelStatistics(pb.ModelStatisticsRequest(name="counter"),
                                         timeout=harness.PATIENCE).model_stats[0]
            self.assertEqual(3, stats.inference_stats.success.count)
            self.assertEqual(3, stats.response_stats["0"].success.count)
            self.assertEqual(1, stats.response_stats["5"].success.count)

    def test_requests_of_one_stream_do_not_wait_for_each_other(self):
        server = self.serve()
        requests = queue.Queue()
        with server.channel() as channel:
            stream = self.stub(channel).ModelStreamInfer(iter(requests.get, None))
            # The first response of "slow" is due in a minute.
            requests.put(self.repeat([1], delay=MINUTE, request_id="slow"))
            requests.put(self.repeat([1, 2], request_id="quick"))
            requests.put(self.request("counter", request_id="loop", n=np.array(2, np.int64)))
            seen = sorted(next(stream).infer_response.id for _ in range(3))
            self.assertEqual(["loop", "quick", "quick"], seen)
            stream.cancel()
            requests.put(None)

    def test_a_cancelled_stream_ends_its_requests(self):
        server = self.serve()
        requests = queue.Queue()
        pb, _ = harness.stubs()("inference.grpc_service")
        with server.channel() as channel:
            stub = self.stub(channel)
            stream = stub.ModelStreamInfer(iter(requests.get, None))
            request = self.repeat([1, 2])
            request.raw_input_contents[1] = np.array([0, MINUTE], np.uint32).tobytes()
            requests.put(request)
            self.assertEqual({"OUT": [1], "IDX": [0]}, self.outputs(next(stream).infer_response))
            stream.cancel()
            requests.put(None)

            def cancelled():
                stats = stub.ModelStatistics(pb.ModelStatisticsRequest(name="repeat"),
                                             timeout=harness.PATIENCE).model_stats[0]
                return stats.response_stats["1"].cancel.count == 1
            harness.wait_until(cancelled, what="the request to end")

    def test_unary_calls_are_refused_and_bad_requests_are_errors(self):
        import grpc
        server = self.serve()
        with server.channel() as channel:
            stub = self.stub(channel)
            with self.assertRaises(grpc.RpcError) as error:
                stub.ModelInfer(self.repeat([1]), timeout=harness.PATIENCE)
            self.assertEqual(grpc.StatusCode.UNIMPLEMENTED, error.exception.code())
            self.assertIn("doesn't support models with decoupled transaction policy",
                          error.exception.details())
            answers = list(stub.ModelStreamInfer(iter([self.repeat([1], delay=MINUTE + 1)]),
                                                 timeout=harness.PATIENCE))
            self.assertIn("the longest is 60000", answers[0].error_message)
            self.assertTrue(self.is_final(answers[0].infer_response))

    def test_generate_by_name(self):
        server = self.serve()
        body = {"IN": [4, 2], "DELAY": [0, 0], "WAIT": 0}
        answers = self.events(server, "repeat/generate_stream", body)
        self.assertEqual([(4, 0), (2, 1)], [(a["OUT"], a["IDX"]) for a in answers])
        self.assertEqual("repeat", answers[0]["model_name"])
        status, text = self.post(server, "repeat/generate",
                                 {"IN": 4, "DELAY": 0, "WAIT": 0, "id": "x"})
        self.assertEqual(200, status, text)
        self.assertEqual({"model_name": "repeat", "model_version": "1", "id": "x",
                          "OUT": 4, "IDX": 0}, json.loads(text))
        for elements in ([], [1, 2]):
            status, text = self.post(server, "repeat/generate",
                                     {"IN": elements, "DELAY": elements, "WAIT": 0})
            self.assertEqual(400, status, text)
            self.assertIn("exactly 1 response", json.loads(text)["error"])
        self.assertEqual([], self.events(server, "repeat/generate_stream",
                                         {"IN": [], "DELAY": [], "WAIT": 0}))
        status, text = self.post(server, "absent/generate_stream", body)
        self.assertEqual(404, status, text)

    def test_an_upload_may_be_decoupled(self):
        server = self.serve()
        path = str(self.folder / "counter/1/model.onnx")
        server.cli("models", "upload", "walk", path, "--decoupled")
        answers = self.events(server, "walk/generate_stream", {"n": 7})
        self.assertEqual(walk(7), [answer["rows"] for answer in answers])
        self.assertEqual(len(walk(7)), answers[-1]["steps"])


if __name__ == "__main__":
    harness.main()
