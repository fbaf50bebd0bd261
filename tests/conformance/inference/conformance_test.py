#!/usr/bin/python3
"""Holds a live server against the open inference protocol, as a client in
another language sees it: Python's grpcio with stubs generated from
proto/inference.

    conformance_test.py --address HOST:PORT --model NAME
    conformance_test.py --server PROGRAM --model NAME

The model needs one FP32 input with a batch dimension and must be served.
PROGRAM prints its port and serves until its input ends. Needs Debian's
python3-grpcio, python3-protobuf, python3-numpy, protobuf-compiler and
protobuf-compiler-grpc.
"""
import argparse
import importlib
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest

import grpc
import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent.parent
UNLIMITED = [("grpc.max_send_message_length", -1),
             ("grpc.max_receive_message_length", -1)]
address = None
model = None
pb = None      # inference.grpc_service_pb2
config = None  # inference.model_config_pb2
stub_class = None


def generate_stubs(folder):
    """Compiles proto/inference for Python and imports the result."""
    global pb, config, stub_class
    subprocess.run(
        ["protoc", "-I.", f"--python_out={folder}", f"--grpc_out={folder}",
         "--plugin=protoc-gen-grpc=/usr/bin/grpc_python_plugin",
         "inference/grpc_service.proto", "inference/model_config.proto"],
        cwd=ROOT / "proto", check=True)
    sys.path.insert(0, folder)
    pb = importlib.import_module("inference.grpc_service_pb2")
    config = importlib.import_module("inference.model_config_pb2")
    stub_class = importlib.import_module(
        "inference.grpc_service_pb2_grpc").GRPCInferenceServiceStub


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.channel = grpc.insecure_channel(address, options=UNLIMITED)
        cls.stub = stub_class(cls.channel)
        cls.metadata = cls.stub.ModelMetadata(
            pb.ModelMetadataRequest(name=model), timeout=10)
        cls.input = cls.metadata.inputs[0]
        cls.output = cls.metadata.outputs[0]
        cls.row_shape = list(cls.input.shape)[1:]
        cls.max_batch = cls.stub.ModelConfig(
            pb.ModelConfigRequest(name=model)).config.max_batch_size

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()

    def rows(self, count, seed=1):
        generator = np.random.default_rng(seed)
        return generator.random([count] + self.row_shape, dtype=np.float32)

    def request(self, values, typed=False, **fields):
        request = pb.ModelInferRequest(model_name=model, **fields)
        tensor = request.inputs.add(name=self.input.name, datatype="FP32",
                                    shape=values.shape)
        if typed:
            tensor.contents.fp32_contents.extend(values.flatten().tolist())
        else:
            request.raw_input_contents.append(values.tobytes())
        return request

    def infer(self, request, **options):
        return self.stub.ModelInfer(request, timeout=20, **options)

    def result(self, response):
        self.assertEqual(len(response.raw_output_contents), 1)
        values = np.frombuffer(response.raw_output_contents[0], np.float32)
        return values.reshape(list(response.outputs[0].shape))

    def fails(self, code, text, call, *arguments):
        with self.assertRaises(grpc.RpcError) as raised:
            call(*arguments)
        self.assertEqual(raised.exception.code(), code,
                         raised.exception.details())
        self.assertIn(text, raised.exception.details())


class HealthAndMetadata(Case):
    def test_server_is_live_and_ready(self):
        self.assertTrue(self.stub.ServerLive(pb.ServerLiveRequest()).live)
        self.assertTrue(self.stub.ServerReady(pb.ServerReadyRequest()).ready)

    def test_server_metadata_names_the_server(self):
        metadata = self.stub.ServerMetadata(pb.ServerMetadataRequest())
        self.assertTrue(metadata.name)
        self.assertTrue(metadata.version)
        self.assertIn("statistics", metadata.extensions)
        self.assertNotIn("system_shared_memory", metadata.extensions)

    def test_model_metadata_has_a_batch_dimension(self):
        self.assertEqual(self.metadata.name, model)
        self.assertTrue(self.metadata.versions)
        self.assertTrue(self.metadata.platform)
        self.assertEqual(self.input.datatype, "FP32")
        self.assertEqual(self.input.shape[0], -1)
        self.assertEqual(self.output.shape[0], -1)

    def test_model_config_leaves_the_batch_dimension_out(self):
        answer = self.stub.ModelConfig(pb.ModelConfigRequest(name=model)).config
        self.assertEqual(answer.name, model)
        self.assertGreater(answer.max_batch_size, 0)
        self.assertEqual(answer.input[0].data_type, config.TYPE_FP32)
        self.assertEqual(list(answer.input[0].dims), self.row_shape)

    def test_model_ready_is_false_for_what_is_not_served(self):
        ready = lambda **f: self.stub.ModelReady(pb.ModelReadyRequest(**f)).ready
        self.assertTrue(ready(name=model))
        self.assertTrue(ready(name=model, version=self.metadata.versions[-1]))
        self.assertFalse(ready(name=model, version="999999"))
        self.assertFalse(ready(name="no-such-model"))
        self.fails(grpc.StatusCode.INVALID_ARGUMENT, "failed to get model version",
                   self.stub.ModelReady,
                   pb.ModelReadyRequest(name=model, version="one"))


class Infer(Case):
    def test_version_is_filled_in_and_id_echoed(self):
        response = self.infer(self.request(self.rows(1), id="a-1"))
        self.assertEqual(response.id, "a-1")
        self.assertEqual(response.model_name, model)
        self.assertIn(response.model_version, list(self.metadata.versions))
        self.assertEqual(response.outputs[0].name, self.output.name)
        self.assertEqual(response.outputs[0].datatype, self.output.datatype)
        self.assertEqual(list(response.outputs[0].shape),
                         [1] + list(self.output.shape)[1:])

    def test_typed_contents_are_answered_like_raw_ones(self):
        rows = self.rows(2)
        raw = self.result(self.infer(self.request(rows)))
        typed = self.result(self.infer(self.request(rows, typed=True)))
        np.testing.assert_allclose(raw, typed, rtol=1e-5, atol=1e-6)

    def test_rows_do_not_depend_on_their_batch(self):
        rows = self.rows(min(8, self.max_batch))
        together = self.result(self.infer(self.request(rows)))
        for i, row in enumerate(rows):
            alone = self.result(self.infer(self.request(row[None])))
            np.testing.assert_allclose(together[i], alone[0], rtol=1e-4,
                                       atol=1e-5)

    def test_parallel_clients_get_their_own_answers(self):
        rows = self.rows(64)
        expected = [self.result(self.infer(self.request(row[None])))[0]
                    for row in rows]
        futures = [self.stub.ModelInfer.future(
            self.request(row[None], id=str(i)), timeout=30)
            for i, row in enumerate(rows)]
        for i, future in enumerate(futures):
            self.assertEqual(future.result().id, str(i))
            np.testing.assert_allclose(self.result(future.result())[0],
                                       expected[i], rtol=1e-4, atol=1e-5)

    def test_an_output_may_be_named(self):
        request = self.request(self.rows(1))
        request.outputs.add(name=self.output.name)
        self.assertEqual(len(self.infer(request).outputs), 1)
        request.outputs[0].name = "no-such-output"
        self.fails(grpc.StatusCode.INVALID_ARGUMENT, "no-such-output",
                   self.infer, request)

    def test_compressed_requests_are_accepted(self):
        rows = self.rows(1)
        plain = self.result(self.infer(self.request(rows)))
        for compression in (grpc.Compression.Gzip, grpc.Compression.Deflate):
            try:
                packed = self.infer(self.request(rows), compression=compression)
            except grpc.RpcError as error:
                if error.code() != grpc.StatusCode.UNIMPLEMENTED:
                    raise
                self.skipTest(f"switched off here: {error.details()}")
            np.testing.assert_allclose(self.result(packed), plain, rtol=1e-4,
                                       atol=1e-5)

    def test_parameters_that_clients_send_are_accepted(self):
        request = self.request(self.rows(1))
        request.parameters["priority"].uint64_param = 1
        request.parameters["timeout"].int64_param = 5_000_000
        request.parameters["my_own"].string_param = "x"
        self.infer(request)
        request.parameters["triton_reserved"].bool_param = True
        self.fails(grpc.StatusCode.INVALID_ARGUMENT, "triton_reserved",
                   self.infer, request)


class InferErrors(Case):
    def wrong(self, text, change):
        request = self.request(self.rows(1))
        change(request)
        self.fails(grpc.StatusCode.INVALID_ARGUMENT, text, self.infer, request)

    def test_unknown_models_and_versions(self):
        request = self.request(self.rows(1))
        request.model_version = "999999"
        self.fails(grpc.StatusCode.NOT_FOUND, "version 999999 is not found",
                   self.infer, request)
        request.model_name, request.model_version = "no-such-model", ""
        self.fails(grpc.StatusCode.NOT_FOUND,
                   "Request for unknown model: 'no-such-model' is not found",
                   self.infer, request)
        request.model_name, request.model_version = model, "v1"
        self.fails(grpc.StatusCode.INVALID_ARGUMENT,
                   "failed to get model version from specified version string"
                   " 'v1'", self.infer, request)

    def test_wrong_name_datatype_shape_and_size(self):
        def name(request): request.inputs[0].name = "pixels"
        def datatype(request): request.inputs[0].datatype = "INT32"
        def unknown(request): request.inputs[0].datatype = "BYTES"
        def shape(request): request.inputs[0].shape.append(1)
        def flat(request): request.inputs[0].shape[:] = [int(np.prod(self.row_shape))]
        def short(request): request.raw_input_contents[0] = b"1234567"
        self.wrong("unexpected inference input 'pixels'", name)
        self.wrong("'INT32'", datatype)
        self.wrong("'BYTES'", unknown)
        self.wrong("unexpected shape", shape)
        self.wrong("unexpected shape", flat)
        self.wrong("byte size 7", short)

    def test_batches_outside_the_limits(self):
        self.fails(grpc.StatusCode.INVALID_ARGUMENT, "batch-size must be <= ",
                   self.infer, self.request(self.rows(self.max_batch + 1)))
        self.fails(grpc.StatusCode.INVALID_ARGUMENT, "batch-size must be <= ",
                   self.infer, self.request(self.rows(0)))
        self.infer(self.request(self.rows(self.max_batch)))

    def test_missing_surplus_and_mixed_data(self):
        def missing(request): del request.raw_input_contents[:]
        def surplus(request): request.raw_input_contents.append(b"")
        def mixed(request): request.inputs[0].contents.fp32_contents.append(1)
        def none(request): del request.inputs[:]
        def twice(request):
            request.inputs.append(request.inputs[0])
            request.raw_input_contents.append(request.raw_input_contents[0])
        self.wrong("unable to find data for input tensor", missing)
        self.wrong("raw_input_contents", surplus)
        self.wrong("contents field must not be specified when using"
                   " raw_input_contents", mixed)
        self.wrong("inputs", none)
        self.wrong("already exists in request", twice)

    def test_the_server_serves_on_after_errors(self):
        self.infer(self.request(self.rows(1)))


class Stream(Case):
    def test_responses_keep_the_order_and_errors_stay_in_the_message(self):
        rows = self.rows(20)
        requests = [self.request(row[None], id=str(i))
                    for i, row in enumerate(rows)]
        requests[7].model_name = "no-such-model"
        answers = list(self.stub.ModelStreamInfer(iter(requests), timeout=30))
        self.assertEqual([a.infer_response.id for a in answers],
                         [str(i) for i in range(20)])
        for i, answer in enumerate(answers):
            final = answer.infer_response.parameters["triton_final_response"]
            self.assertTrue(final.bool_param)
            if i == 7:
                self.assertIn("is not found", answer.error_message)
            else:
                self.assertEqual(answer.error_message, "")
                self.result(answer.infer_response)

    def test_strict_mode_ends_with_the_status(self):
        request = self.request(self.rows(1))
        request.model_name = "no-such-model"
        self.fails(grpc.StatusCode.NOT_FOUND, "is not found",
                   lambda: list(self.stub.ModelStreamInfer(
                       iter([request]), timeout=30,
                       metadata=[("triton_grpc_error", "true")])))

    def test_a_cancelled_stream_leaves_the_server_well(self):
        more = threading.Event()

        def requests():
            yield self.request(self.rows(1))
            more.wait(10)
        stream = self.stub.ModelStreamInfer(requests(), timeout=30)
        next(stream)
        stream.cancel()
        more.set()
        self.infer(self.request(self.rows(1)))


class Extensions(Case):
    def test_statistics_count_rows_and_batches(self):
        def read():
            answer = self.stub.ModelStatistics(pb.ModelStatisticsRequest(
                name=model, version=self.metadata.versions[-1]))
            self.assertEqual(len(answer.model_stats), 1)
            return answer.model_stats[0]
        before = read()
        rows = min(3, self.max_batch)
        request = self.request(self.rows(rows))
        request.model_version = self.metadata.versions[-1]
        self.infer(request)
        after = read()
        self.assertEqual(after.inference_count - before.inference_count, rows)
        self.assertEqual(after.execution_count - before.execution_count, 1)
        self.assertEqual(after.inference_stats.success.count
                         - before.inference_stats.success.count, 1)
        self.assertGreater(after.last_inference, 0)
        self.fails(grpc.StatusCode.INVALID_ARGUMENT, "is not available",
                   self.stub.ModelStatistics,
                   pb.ModelStatisticsRequest(name="no-such-model"))

    def test_repository_index_lists_the_model(self):
        index = self.stub.RepositoryIndex(pb.RepositoryIndexRequest())
        states = {m.version: m.state for m in index.models if m.name == model}
        self.assertIn("READY", states.values())
        ready = self.stub.RepositoryIndex(pb.RepositoryIndexRequest(ready=True))
        self.assertEqual({m.state for m in ready.models}, {"READY"})
        self.fails(grpc.StatusCode.UNIMPLEMENTED, "'repository_name'",
                   self.stub.RepositoryIndex,
                   pb.RepositoryIndexRequest(repository_name="r"))

    def log_settings(self, **settings):
        request = pb.LogSettingsRequest()
        for name, value in settings.items():
            setting = request.settings[name]
            if isinstance(value, bool):
                setting.bool_param = value
            elif isinstance(value, int):
                setting.uint32_param = value
            else:
                setting.string_param = value
        answer = self.stub.LogSettings(request).settings
        return {name: getattr(answer[name], answer[name].WhichOneof("parameter_choice"))
                for name in answer}

    def test_the_level_of_the_log_is_read_and_set(self):
        extensions = self.stub.ServerMetadata(pb.ServerMetadataRequest()).extensions
        self.assertIn("logging", extensions)
        before = self.log_settings()
        self.assertEqual({"log_file", "log_info", "log_warning", "log_error",
                          "log_verbose_level", "log_format"}, set(before))
        levels = {name: before[name] for name in
                  ("log_verbose_level", "log_info", "log_warning", "log_error")}
        self.addCleanup(self.log_settings, **levels)
        quiet = self.log_settings(log_verbose_level=0, log_info=False)
        self.assertEqual((0, False, True, True),
                         (quiet["log_verbose_level"], quiet["log_info"],
                          quiet["log_warning"], quiet["log_error"]))
        loud = self.log_settings(log_verbose_level=1, log_info=True, log_warning=True,
                                 log_error=True, log_format=before["log_format"])
        self.assertEqual(1, loud["log_verbose_level"])
        self.assertEqual(loud, self.log_settings())
        request = pb.LogSettingsRequest()
        request.settings["log_file"].string_param = "log_file.log"
        self.fails(grpc.StatusCode.UNIMPLEMENTED,
                   "file location can not be updated through network protocol",
                   self.stub.LogSettings, request)

    def test_what_is_not_offered_is_unimplemented(self):
        for call, request in (
                (self.stub.SystemSharedMemoryStatus,
                 pb.SystemSharedMemoryStatusRequest()),
                (self.stub.CudaSharedMemoryRegister,
                 pb.CudaSharedMemoryRegisterRequest()),
                (self.stub.TraceSetting, pb.TraceSettingRequest())):
            self.fails(grpc.StatusCode.UNIMPLEMENTED, "", call, request)
        request = self.request(self.rows(1))
        request.inputs[0].parameters["shared_memory_region"].string_param = "r"
        self.fails(grpc.StatusCode.UNIMPLEMENTED,
                   "Client shared memory is disabled", self.infer, request)


def main():
    global address, model
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--address")
    where.add_argument("--server")
    parser.add_argument("--model", required=True)
    options, rest = parser.parse_known_args()
    address, model = options.address, options.model
    server = None
    if options.server:
        server = subprocess.Popen([options.server], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
        address = f"127.0.0.1:{int(server.stdout.readline())}"
    try:
        with tempfile.TemporaryDirectory() as folder:
            generate_stubs(folder)
            unittest.main(argv=sys.argv[:1] + rest)
    finally:
        if server:
            server.stdin.close()
            server.wait(30)


if __name__ == "__main__":
    main()
