#!/usr/bin/env python3
"""Models of texts through the real processes: gRPC, HTTP and the command."""
import json
import pathlib
import struct
import sys
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402
import models_test  # noqa: E402

if models_test.onnx is not None:
    import numpy as np
    import onnx
    from models_test import TensorProto, helper


def pack(texts):
    return b"".join(struct.pack("<I", len(text)) + text for text in texts)


def unpack(raw):
    found = []
    while raw:
        size, = struct.unpack_from("<I", raw)
        found.append(raw[4:4 + size])
        raw = raw[4 + size:]
    return found


def text_model(nodes, inputs, outputs):
    graph = helper.make_graph(
        nodes, "g", [helper.make_tensor_value_info(*i) for i in inputs],
        [helper.make_tensor_value_info(*o) for o in outputs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17),
                                                    helper.make_opsetid("ai.onnx.ml", 2)])
    model.ir_version = 8
    return model


def animals_model():
    """Returns a model of words: their numbers, and the numbers as texts."""
    of = ["batch", 2]
    return text_model(
        [helper.make_node("LabelEncoder", ["words"], ["ids"], name="encode",
                          domain="ai.onnx.ml", keys_strings=["cat", "b\u00e4r"],
                          values_int64s=[3, 4], default_int64=-1),
         helper.make_node("Cast", ["ids"], ["names"], name="name", to=TensorProto.STRING)],
        [("words", TensorProto.STRING, of)],
        [("ids", TensorProto.INT64, of), ("names", TensorProto.STRING, of)])


WORDS = ["cat".encode(), "b\u00e4r".encode(), b"dog", b""]
IDS = [3, 4, -1, -1]


@unittest.skipIf(models_test.onnx is None, "python3-onnx and python3-numpy are not installed")
class Texts(harness.TestCase):
    def upload(self, server, name, model):
        path = server.state / f"{name}.onnx"
        onnx.save(model, str(path))
        server.cli("models", "upload", name, path, "--max-batch-size", "8")

    def stub(self, channel):
        _, rpc = harness.stubs()("inference.grpc_service")
        return rpc.GRPCInferenceServiceStub(channel)

    def request(self, raw=None, shape=(2, 2)):
        pb, _ = harness.stubs()("inference.grpc_service")
        request = pb.ModelInferRequest(model_name="animals")
        tensor = request.inputs.add(name="words", datatype="BYTES", shape=shape)
        if raw is None:
            tensor.contents.bytes_contents.extend(WORDS)
        else:
            request.raw_input_contents.append(raw)
        return request

    def check(self, answer):
        ids, names = answer.raw_output_contents
        self.assertEqual(IDS, np.frombuffer(ids, np.int64).tolist())
        self.assertEqual([str(i).encode() for i in IDS], unpack(names))
        self.assertEqual([["INT64", [2, 2]], ["BYTES", [2, 2]]],
                         [[o.datatype, list(o.shape)] for o in answer.outputs])

    def test_grpc_carries_texts_and_counts_them(self):
        import grpc
        pb, _ = harness.stubs()("inference.grpc_service")
        server = self.start("--devices", "cpu:1")
        self.upload(server, "animals", animals_model())
        with server.channel() as channel:
            stub = self.stub(channel)
            self.check(stub.ModelInfer(self.request(), timeout=harness.PATIENCE))
            self.check(stub.ModelInfer(self.request(pack(WORDS)), timeout=harness.PATIENCE))
            for raw, words in ((pack(WORDS)[:-1], "element"), (pack(WORDS) + b"x", "more"),
                               (b"\xff" * 16, "length")):
                with self.assertRaises(grpc.RpcError) as error:
                    stub.ModelInfer(self.request(raw), timeout=harness.PATIENCE)
                self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT, error.exception.code())
                self.assertIn(words, error.exception.details())
            metadata = stub.ModelMetadata(pb.ModelMetadataRequest(name="animals"))
            self.assertEqual(["BYTES"], [tensor.datatype for tensor in metadata.inputs])
            config = stub.ModelConfig(pb.ModelConfigRequest(name="animals")).config
            self.assertEqual(13, config.input[0].data_type)  # TYPE_STRING
            stats = stub.ModelStatistics(
                pb.ModelStatisticsRequest(name="animals")).model_stats[0]
            self.assertEqual((4, 2), (stats.inference_count, stats.execution_count))
            self.assertEqual((2, 3), (stats.inference_stats.success.count,
                                      stats.inference_stats.fail.count))

    def test_http_carries_texts_as_strings_and_as_binary_data(self):
        server = self.start("--devices", "cpu:1")
        self.upload(server, "animals", animals_model())
        url = f"http://127.0.0.1:{server.ports['http_port']}/v2/models/animals/infer"

        def post(body, **headers):
            request = urllib.request.Request(url, body, headers)
            with urllib.request.urlopen(request, timeout=harness.PATIENCE) as answer:
                return json.load(answer)["outputs"]
        tensor = {"name": "words", "datatype": "BYTES", "shape": [2, 2]}
        as_json = json.dumps(
            {"inputs": [{**tensor, "data": [word.decode() for word in WORDS]}]}).encode()
        raw = pack(WORDS)
        head = json.dumps({"inputs": [{**tensor, "parameters": {
            "binary_data_size": len(raw)}}]}).encode()
        length = {"Inference-Header-Content-Length": str(len(head))}
        for outputs in (post(as_json), post(head + raw, **length)):
            self.assertEqual([IDS, [str(i) for i in IDS]],
                             [output["data"] for output in outputs])

    def test_the_command_reads_and_prints_strings(self):
        server = self.start("--devices", "cpu:1")
        self.upload(server, "animals", animals_model())
        path = server.state / "words.json"
        path.write_text('[["cat", "dog"]]')
        printed = json.loads(server.cli("models", "infer", "animals", "--input",
                                        f"words={path}"))
        self.assertEqual({"ids": [[3, -1]], "names": [["3", "-1"]]}, printed)

    def test_a_model_of_texts_outlives_a_restart(self):
        server = self.start("--devices", "cpu:1")
        self.upload(server, "animals", animals_model())
        self.assertEqual(0, server.terminate())
        server.start()
        server.cli("models", "load", "animals", "--wait")
        with server.channel() as channel:
            self.check(self.stub(channel).ModelInfer(self.request(),
                                                     timeout=harness.PATIENCE))

    def test_a_node_that_computes_numbers_is_named(self):
        server = self.start("--devices", "cpu:1")
        mixed = text_model(
            [helper.make_node("Cast", ["x"], ["f"], name="read", to=TensorProto.FLOAT),
             helper.make_node("Relu", ["f"], ["y"], name="positive")],
            [("x", TensorProto.STRING, ["batch", 1])],
            [("y", TensorProto.FLOAT, ["batch", 1])])
        with self.assertRaises(harness.CommandFailed) as error:
            self.upload(server, "mixed", mixed)
        self.assertIn("Relu 'positive'", str(error.exception))


if __name__ == "__main__":
    harness.main()
