#!/usr/bin/env python3
"""Classes of outputs through the real processes, with labels of a model repository."""
import json
import pathlib
import struct
import sys
import tempfile
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

CONFIG = """
max_batch_size: 8
output [ { name: "scores" data_type: TYPE_FP32 dims: [ 4 ] label_filename: "names.txt" },
         { name: "counts" data_type: TYPE_INT64 dims: [ 4 ] } ]
"""
ROWS = [[0.5, -1.0, 3.25, 2.0], [9.0, 8.0, 8.0, -4.0]]
TOP = [["3.250000:2:fox", "2.000000:3"], ["9.000000:0:cat", "8.000000:1:dog"]]


def texts(raw):
    """Returns the elements of raw contents of BYTES."""
    found = []
    while raw:
        size, = struct.unpack_from("<I", raw)
        found.append(raw[4:4 + size].decode())
        raw = raw[4 + size:]
    return found


def scores_model():
    """Returns a model that repeats its input, as it is and as integers."""
    of = ["batch", 4]
    return make_model(
        [helper.make_node("Identity", ["x"], ["scores"], name="keep"),
         helper.make_node("Cast", ["x"], ["counts"], name="cast", to=TensorProto.INT64)],
        [("x", TensorProto.FLOAT, of)],
        [("scores", TensorProto.FLOAT, of), ("counts", TensorProto.INT64, of)], {})


@unittest.skipIf(models_test.onnx is None, "python3-onnx and python3-numpy are not installed")
class Classification(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(tempfile.mkdtemp())
        (self.folder / "scores/1").mkdir(parents=True)
        onnx.save(scores_model(), str(self.folder / "scores/1/model.onnx"))
        (self.folder / "scores/config.pbtxt").write_text(CONFIG)
        (self.folder / "scores/names.txt").write_text("cat\ndog\nfox\n")

    def serve(self):
        server = self.start("--devices", "cpu:1", "--model-repository", str(self.folder))
        url = f"http://127.0.0.1:{server.ports['http_port']}/v2/models/scores"

        def ready():
            try:
                with urllib.request.urlopen(url + "/ready",
                                            timeout=harness.PATIENCE) as answer:
                    return answer.status == 200
            except urllib.error.HTTPError:
                return False
        harness.wait_until(ready, what="the model to be ready")
        return server, url + "/infer"

    def request(self, **classes):
        pb, _ = harness.stubs()("inference.grpc_service")
        request = pb.ModelInferRequest(model_name="scores")
        request.inputs.add(name="x", datatype="FP32", shape=[len(ROWS), 4])
        request.raw_input_contents.append(np.array(ROWS, np.float32).tobytes())
        for name, count in classes.items():
            request.outputs.add(name=name).parameters["classification"].int64_param = count
        return request

    def test_grpc_answers_with_classes_and_labels(self):
        import grpc
        server, _ = self.serve()
        _, rpc = harness.stubs()("inference.grpc_service")
        with server.channel() as channel:
            stub = rpc.GRPCInferenceServiceStub(channel)
            answer = stub.ModelInfer(self.request(scores=2, counts=99),
                                     timeout=harness.PATIENCE)
            self.assertEqual(["BYTES", "BYTES"], [o.datatype for o in answer.outputs])
            self.assertEqual([[2, 2], [2, 4]], [list(o.shape) for o in answer.outputs])
            self.assertEqual(sum(TOP, []), texts(answer.raw_output_contents[0]))
            self.assertEqual(["3:2", "2:3", "0:0", "-1:1", "9:0", "8:1", "8:2", "-4:3"],
                             texts(answer.raw_output_contents[1]))
            streamed = next(stub.ModelStreamInfer(iter([self.request(scores=2)]),
                                                  timeout=harness.PATIENCE))
            self.assertEqual(sum(TOP, []),
                             texts(streamed.infer_response.raw_output_contents[0]))
            with self.assertRaises(grpc.RpcError) as error:
                stub.ModelInfer(self.request(scores=0), timeout=harness.PATIENCE)
        self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT, error.exception.code())
        self.assertIn("1 class or more", error.exception.details())

    def over_http(self, url, **parameters):
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 4], "data": ROWS}],
                "outputs": [{"name": "scores", "parameters": parameters}]}
        request = urllib.request.Request(url, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        return urllib.request.urlopen(request, timeout=harness.PATIENCE)

    def test_http_answers_with_strings_or_binary_data(self):
        _, url = self.serve()
        with self.over_http(url, classification=2) as answer:
            output, = json.load(answer)["outputs"]
        self.assertEqual({"name": "scores", "datatype": "BYTES", "shape": [2, 2],
                          "data": sum(TOP, [])}, output)
        with self.over_http(url, classification=1, binary_data=True) as answer:
            head = int(answer.headers["Inference-Header-Content-Length"])
            body = answer.read()
        output, = json.loads(body[:head])["outputs"]
        self.assertEqual([2, 1], output["shape"])
        self.assertEqual(len(body) - head, output["parameters"]["binary_data_size"])
        self.assertEqual([row[0] for row in TOP], texts(body[head:]))
        with self.assertRaises(urllib.error.HTTPError) as error:
            self.over_http(url, classification=-1)
        self.assertEqual(400, error.exception.code)

    def test_labels_outlive_a_restart(self):
        server, url = self.serve()
        self.assertEqual(0, server.terminate())
        server.arguments = ["--devices", "cpu:1"]
        server.start()
        url = f"http://127.0.0.1:{server.ports['http_port']}/v2/models/scores/infer"

        def answers():
            try:
                return self.over_http(url, classification=2)
            except urllib.error.HTTPError:
                return None
        with harness.wait_until(answers, what="the model to be served again") as answer:
            self.assertEqual(sum(TOP, []), json.load(answer)["outputs"][0]["data"])


if __name__ == "__main__":
    harness.main()
