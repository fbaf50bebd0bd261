#!/usr/bin/env python3
"""Sequences of requests through the real processes: models that remember."""
import contextlib
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402
import models_test  # noqa: E402

if models_test.onnx is not None:
    import numpy as np
    import onnx
    from models_test import TensorProto, helper, make_model

SUM = """
max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 1 ] } ]
output [ { name: "sum" data_type: TYPE_FP32 dims: [ 1 ] } ]
sequence_batching {
  max_sequence_idle_microseconds: IDLE
  oldest { max_candidate_sequences: 32 }
  state [ { input_name: "before" output_name: "after" data_type: TYPE_FP32 dims: [ 1 ] FIRST } ]
}
"""
FLAGS = """
max_batch_size: 4
sequence_batching {
  max_sequence_idle_microseconds: 3600000000
  direct { }
  control_input [
    { name: "start" control [ { kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] } ] },
    { name: "end" control [ { kind: CONTROL_SEQUENCE_END fp32_false_true: [ 2, 3 ] } ] },
    { name: "ready" control [ { kind: CONTROL_SEQUENCE_READY fp32_false_true: [ 0, 1 ] } ] },
    { name: "id" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_INT64 } ] }
  ]
}
"""
HOUR = 3_600_000_000
LATE_SECONDS = 2  # deadline of a request that a stopped worker does not answer


def sum_config(idle=HOUR, first=""):
    return SUM.replace("IDLE", str(idle)).replace("FIRST", first)


def sum_model():
    """Returns a model whose output is the sum of its input and its state."""
    of = ["batch", 1]
    return make_model(
        [helper.make_node("Add", ["x", "before"], ["sum"], name="add"),
         helper.make_node("Identity", ["sum"], ["after"], name="keep")],
        [("x", TensorProto.FLOAT, of), ("before", TensorProto.FLOAT, of)],
        [("sum", TensorProto.FLOAT, of), ("after", TensorProto.FLOAT, of)], {})


def flags_model():
    """Returns a model whose output is its input and its controls."""
    of = ["batch", 1]
    floats = ("x", "start", "end", "ready")
    return make_model(
        [helper.make_node("Cast", ["id"], ["number"], name="cast", to=TensorProto.FLOAT),
         helper.make_node("Concat", [*floats, "number"], ["y"], name="join", axis=1)],
        [*((name, TensorProto.FLOAT, of) for name in floats), ("id", TensorProto.INT64, of)],
        [("y", TensorProto.FLOAT, ["batch", 5])], {})


@unittest.skipIf(models_test.onnx is None,
                 "python3-onnx and python3-numpy are not installed")
class Sequences(harness.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpupool-sequences-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def put(self, name, model, config=None):
        (self.folder / name / "1").mkdir(parents=True)
        onnx.save(model, str(self.folder / name / "1/model.onnx"))
        if config is not None:
            (self.folder / name / "config.pbtxt").write_text(config)

    def serve(self, *models):
        server = self.start("--devices", "cpu:1", "--model-repository", str(self.folder))
        for model in models:
            harness.wait_until(lambda model=model: self.ready(server, model),
                               what=f"{model} to be ready")
        return server

    def url(self, server, path):
        return f"http://127.0.0.1:{server.ports['http_port']}/v2/models/{path}"

    def ready(self, server, model):
        try:
            with urllib.request.urlopen(self.url(server, f"{model}/ready"),
                                        timeout=harness.PATIENCE) as answer:
                return answer.status == 200
        except urllib.error.HTTPError:
            return False

    def request(self, model, x, sequence, start=False, end=False):
        pb, _ = harness.stubs()("inference.grpc_service")
        request = pb.ModelInferRequest(
            model_name=model, raw_input_contents=[np.array([[x]], np.float32).tobytes()])
        request.inputs.add(name="x", datatype="FP32", shape=[1, 1])
        if isinstance(sequence, str):
            request.parameters["sequence_id"].string_param = sequence
        else:
            request.parameters["sequence_id"].int64_param = sequence
        request.parameters["sequence_start"].bool_param = start
        request.parameters["sequence_end"].bool_param = end
        return request

    def numbers(self, answer):
        return np.frombuffer(answer.raw_output_contents[0], np.float32).tolist()

    def send(self, stub, *arguments, **flags):
        """Returns the numbers of the first output."""
        return self.numbers(stub.ModelInfer(self.request(*arguments, **flags),
                                            timeout=harness.PATIENCE))

    def refused(self, stub, *arguments, **flags):
        """Returns (code, text) of the error."""
        import grpc
        with self.assertRaises(grpc.RpcError) as error:
            self.send(stub, *arguments, **flags)
        return error.exception.code(), error.exception.details()

    def stub(self, channel):
        _, rpc = harness.stubs()("inference.grpc_service")
        return rpc.GRPCInferenceServiceStub(channel)

    def plan(self, seed, ids, length):
        """Returns requests (x, id, start, end) of interleaved sequences, and their sums."""
        print(f"seed {seed}")
        rng = random.Random(seed)
        left = {sequence: length for sequence in ids}
        sums, requests, wanted = {}, [], []
        while left:
            sequence = rng.choice(list(left))
            x = rng.randrange(1000)
            start = left[sequence] == length
            left[sequence] -= 1
            end = left[sequence] == 0
            if end:
                del left[sequence]
            sums[sequence] = (0 if start else sums[sequence]) + x
            requests.append((x, sequence, start, end))
            wanted.append([float(sums[sequence])])
        return requests, wanted

    def test_sums_of_interleaved_sequences_are_exact(self):
        self.put("sum", sum_model(), sum_config())
        server = self.serve("sum")
        ids = [*range(1, 13), *(f"text {i}" for i in range(6))]
        requests, wanted = self.plan(21, ids, 10)
        with server.channel() as channel:
            stub = self.stub(channel)
            for (x, sequence, start, end), total in zip(requests, wanted):
                self.assertEqual(total, self.send(stub, "sum", x, sequence, start=start,
                                                  end=end))
            self.assertEqual((len(requests), 0), self.counts(stub, "sum"))

    def counts(self, stub, model):
        """Returns how many requests have succeeded and failed."""
        pb, _ = harness.stubs()("inference.grpc_service")
        stats = stub.ModelStatistics(pb.ModelStatisticsRequest(name=model),
                                     timeout=harness.PATIENCE).model_stats[0].inference_stats
        return stats.success.count, stats.fail.count

    def test_a_stream_carries_many_sequences_at_once(self):
        self.put("sum", sum_model(), sum_config())
        server = self.serve("sum")
        # More sequences than candidates: some wait until others end.
        requests, wanted = self.plan(22, list(range(1, 49)), 8)
        # Whoever waits for a place must not keep those from ending who have one, so each
        # sequence is sent as a whole.
        order = sorted(range(len(requests)), key=lambda i: requests[i][1])
        with server.channel() as channel:
            answers = list(self.stub(channel).ModelStreamInfer(
                iter([self.request("sum", requests[i][0], requests[i][1],
                                   start=requests[i][2], end=requests[i][3])
                      for i in order]), timeout=harness.PATIENCE))
        self.assertEqual([""] * len(order), [answer.error_message for answer in answers])
        self.assertEqual([wanted[i] for i in order],
                         [self.numbers(answer.infer_response) for answer in answers])

    def test_clients_at_the_same_time_do_not_mix(self):
        self.put("sum", sum_model(), sum_config())
        server = self.serve("sum")
        wrong = []

        def run(sequence):
            rng = random.Random(sequence)
            total = 0
            with server.channel() as channel:
                stub = self.stub(channel)
                for i in range(40):
                    x = rng.randrange(1000)
                    total += x
                    answer = self.send(stub, "sum", x, sequence, start=i == 0, end=i == 39)
                    if answer != [float(total)]:
                        wrong.append((sequence, i, answer, total))
        threads = [threading.Thread(target=run, args=(i,)) for i in range(1, 41)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([], wrong)

    def over_http(self, server, model, x, parameters):
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 1], "data": [x]}],
                "parameters": parameters}
        request = urllib.request.Request(self.url(server, f"{model}/infer"),
                                         json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=harness.PATIENCE) as answer:
            return json.load(answer)["outputs"][0]["data"]

    def test_http_carries_the_same_sequences(self):
        self.put("sum", sum_model(), sum_config())
        server = self.serve("sum")
        start = {"sequence_id": 5, "sequence_start": True}
        self.assertEqual([3], self.over_http(server, "sum", 3, start))
        with server.channel() as channel:
            self.assertEqual([7.0], self.send(self.stub(channel), "sum", 4, 5))
        self.assertEqual([9], self.over_http(server, "sum", 2,
                                             {"sequence_id": 5, "sequence_end": True}))
        with self.assertRaises(urllib.error.HTTPError) as error:
            self.over_http(server, "sum", 2, {"sequence_id": 5})
        self.assertEqual(400, error.exception.code)
        self.assertIn("must specify the START flag", error.exception.read().decode())

    def test_what_is_no_part_of_a_sequence_is_refused(self):
        import grpc
        self.put("sum", sum_model(), sum_config())
        self.put("plain", flags_model())
        server = self.serve("sum", "plain")
        with server.channel() as channel:
            stub = self.stub(channel)
            code, text = self.refused(stub, "sum", 1, 9)
            self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT, code)
            self.assertIn("sequence 9", text)
            self.assertIn("must specify the START flag", text)
            code, text = self.refused(stub, "sum", 1, 0, start=True)
            self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT, code)
            self.assertIn("correlation ID", text)
            self.send(stub, "sum", 1, "nine", start=True, end=True)
            self.assertIn("START flag", self.refused(stub, "sum", 1, "nine")[1])
            code, text = self.refused(stub, "plain", 1, 9)
            self.assertEqual(grpc.StatusCode.UNIMPLEMENTED, code)
            self.assertIn("serves no sequences", text)

    def sequences(self, server, model):
        line = f'gpupool_inference_sequences{{model="{model}",version="1"}} '
        return next(int(float(text.removeprefix(line)))
                    for text in server.metrics().splitlines() if text.startswith(line))

    def test_an_idle_sequence_ends(self):
        self.put("sum", sum_model(), sum_config(idle=1000))
        server = self.serve("sum")
        with server.channel() as channel:
            stub = self.stub(channel)
            self.send(stub, "sum", 1, 9, start=True)
            harness.wait_until(lambda: self.sequences(server, "sum") == 0,
                               what="the sequence to end")
            self.assertIn("START flag", self.refused(stub, "sum", 1, 9)[1])
            self.assertEqual([2.0], self.send(stub, "sum", 2, 9, start=True))

    def test_the_loss_of_a_worker_does_not_touch_the_state(self):
        self.put("sum", sum_model(), sum_config())
        server = self.serve("sum")
        with server.channel() as channel:
            stub = self.stub(channel)
            self.assertEqual([5.0], self.send(stub, "sum", 5, 9, start=True))
            os.kill(server.worker_pids()["cpu:0"], signal.SIGKILL)
            # The request waits for the next worker.
            self.assertEqual([11.0], self.send(stub, "sum", 6, 9))
            self.assertEqual([18.0], self.send(stub, "sum", 7, 9, end=True))

    def test_a_request_that_fails_on_the_worker_ends_its_sequence(self):
        import grpc
        self.put("sum", sum_model(), sum_config())
        server = self.serve("sum")
        worker = server.worker_pids()["cpu:0"]
        with server.channel() as channel:
            stub = self.stub(channel)
            os.kill(worker, signal.SIGSTOP)
            try:
                late = stub.ModelInfer.future(self.request("sum", 5, 9, start=True),
                                              timeout=LATE_SECONDS)
                harness.wait_until(
                    lambda: 'gpupool_inference_sequences{model="sum",version="1"} 1\n'
                            in server.metrics(),
                    what="the request to be with the worker")
                passed = time.monotonic() + LATE_SECONDS + 0.1
                self.assertEqual(grpc.StatusCode.DEADLINE_EXCEEDED, late.code())
                # The server's clock for the request began before `passed` was read.
                harness.wait_until(lambda: time.monotonic() > passed, what="the deadline")
            finally:
                # On a busy machine the server may have ended it for its silence.
                with contextlib.suppress(ProcessLookupError):
                    os.kill(worker, signal.SIGCONT)
            # One that finds the failed request on the worker waits behind it.
            self.assertIn(self.refused(stub, "sum", 1, 9)[0],
                          (grpc.StatusCode.ABORTED, grpc.StatusCode.INVALID_ARGUMENT))
            self.assertEqual([2.0], self.send(stub, "sum", 2, 9, start=True))

    def test_unloading_a_model_ends_its_sequences(self):
        pb, _ = harness.stubs()("inference.grpc_service")
        self.put("sum", sum_model(), sum_config())
        server = self.serve("sum")
        with server.channel() as channel:
            stub = self.stub(channel)
            self.send(stub, "sum", 5, 9, start=True)
            stub.RepositoryModelUnload(pb.RepositoryModelUnloadRequest(model_name="sum"),
                                       timeout=harness.PATIENCE)
            self.refused(stub, "sum", 1, 9)
            stub.RepositoryModelLoad(pb.RepositoryModelLoadRequest(model_name="sum"),
                                     timeout=harness.PATIENCE)
            self.assertIn("START flag", self.refused(stub, "sum", 1, 9)[1])
            self.assertEqual([2.0], self.send(stub, "sum", 2, 9, start=True))

    def test_a_sequence_may_begin_with_the_state_of_a_file(self):
        first = ('initial_state [ { name: "first" data_type: TYPE_FP32 dims: [ 1 ] '
                 'data_file: "hundred" } ]')
        self.put("sum", sum_model(), sum_config(first=first))
        (self.folder / "sum/initial_state").mkdir()
        (self.folder / "sum/initial_state/hundred").write_bytes(
            np.array([100], np.float32).tobytes())
        server = self.serve("sum")
        with server.channel() as channel:
            stub = self.stub(channel)
            for sequence in (1, 2):
                self.assertEqual([101.0], self.send(stub, "sum", 1, sequence, start=True))
            self.assertEqual([103.0], self.send(stub, "sum", 2, 1))
        self.assertNotIn("initial_state", server.log())

    def test_controls_say_where_a_request_stands(self):
        pb, _ = harness.stubs()("inference.grpc_service")
        self.put("flags", flags_model(), FLAGS)
        server = self.serve("flags")
        with server.channel() as channel:
            stub = self.stub(channel)
            self.assertEqual([7, 1, 2, 1, 70], self.send(stub, "flags", 7, 70, start=True))
            self.assertEqual([8, 0, 2, 1, 70], self.send(stub, "flags", 8, 70))
            self.assertEqual([9, 0, 3, 1, 70], self.send(stub, "flags", 9, 70, end=True))
            self.assertIn("send a number", self.refused(stub, "flags", 1, "a", start=True)[1])
            metadata = stub.ModelMetadata(pb.ModelMetadataRequest(name="flags"))
            self.assertEqual(["x"], [tensor.name for tensor in metadata.inputs])
            config = stub.ModelConfig(pb.ModelConfigRequest(name="flags")).config
            self.assertEqual("sequence_batching", config.WhichOneof("scheduling_choice"))
            batching = config.sequence_batching
            self.assertEqual("direct", batching.WhichOneof("strategy_choice"))
            self.assertEqual(["start", "end", "ready", "id"],
                             [control.name for control in batching.control_input])
            self.assertEqual([2, 3], batching.control_input[1].control[0].fp32_false_true)

    def test_direct_has_as_many_slots_as_a_batch_has_rows(self):
        self.put("flags", flags_model(), FLAGS)
        server = self.serve("flags")
        with server.channel() as channel:
            stub = self.stub(channel)
            for sequence in range(1, 5):
                self.send(stub, "flags", 0, sequence, start=True)
            # The fifth one waits for a slot.
            waiting = stub.ModelInfer.future(
                self.request("flags", 6, 5, start=True, end=True), timeout=harness.PATIENCE)
            harness.wait_until(
                lambda: 'gpupool_inference_sequence_requests_waiting{model="flags",'
                        'version="1"} 1\n' in server.metrics(),
                what="the request to wait")
            self.assertFalse(waiting.done())
            self.send(stub, "flags", 0, 2, end=True)
            self.assertEqual([6, 1, 3, 1, 5], self.numbers(waiting.result()))


if __name__ == "__main__":
    harness.main()
