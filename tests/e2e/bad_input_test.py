#!/usr/bin/env python3
"""Bad input gets a clear error and loses nothing."""
import gzip
import hashlib
import struct
import sys
import pathlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402


class BadJobs(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        import tempfile
        cls.state = tempfile.mkdtemp(prefix="gpupool-test-")
        cls.server = harness.Server(cls.state, ("--devices", "cpu:1",
                                                "--device-memory", "256MiB")).start()
        cls.server.upload_digits()

    @classmethod
    def tearDownClass(cls):
        import shutil
        cls.server.stop()
        shutil.rmtree(cls.state, ignore_errors=True)

    def refused(self, spec, *fragments, code=2):
        path = self.server.state / "bad.yaml"
        path.write_text(spec)
        before = len(self.server.json("jobs").get("jobs", []))
        text = self.server.cli("submit", path, code=code)
        for fragment in fragments:
            self.assertIn(fragment, text)
        self.assertEqual(before, len(self.server.json("jobs").get("jobs", [])))
        return text

    def test_unknown_layer(self):
        spec = harness.digits_job().replace("- relu", "- rellu")
        self.refused(spec, "rellu", "relu")

    def test_shape_mismatch_names_the_layer_and_both_shapes(self):
        spec = harness.digits_job().replace(
            "- flatten", "- add: {from: input}\n    - flatten")
        self.refused(spec, "add", "[8, 4, 4]", "[1, 8, 8]")

    def test_features_that_do_not_fill_the_input(self):
        spec = harness.digits_job().replace("[1, 8, 8]", "[1, 9, 9]")
        self.refused(spec, "64", "81")

    def test_unknown_dataset(self):
        self.refused(harness.digits_job(dataset="nowhere"), "nowhere", code=3)

    def test_batch_larger_than_the_data(self):
        self.refused(harness.digits_job(batch_size=4096), "4096", "1438")

    def test_model_too_large_for_every_device(self):
        spec = harness.digits_job().replace("units: 10}", "units: 2000000}")
        self.refused(spec, "never fits", "needs 5.0 GiB", "256.0 MiB")

    def test_unknown_field_is_named_with_its_line(self):
        spec = harness.digits_job().replace("batch_size", "batchsize")
        self.refused(spec, "bad.yaml:22:3", "batchsize", "batch_size")

    def test_nan_loss_fails_with_step_and_hint_and_keeps_the_checkpoint(self):
        # Good steps first: the rate explodes after the first checkpoint.
        spec = harness.digits_job("nan", steps=2000, checkpoint_every_steps=10,
                                  report_every_steps=1)
        spec = spec.replace("adam: {learning_rate: 0.001}",
                            "sgd: {learning_rate: 1e-5}\n"
                            "  schedule: {step: {every_steps: 25, gamma: 1e20}}")
        job = self.server.wait_job(self.server.submit(spec))
        self.assertEqual("FAILED", job["state"], job)
        self.assertEqual(1, job["attempt"], "the job's own fault is not retried")
        self.assertIn("step", job["error"]["message"])
        self.assertIn("learning", job["error"]["hint"])
        self.assertGreaterEqual(int(job["last_checkpoint"]["step"]), 10)
        self.assertTrue(self.server.weights_sha256(job))

    def test_request_id_with_another_spec(self):
        a = self.server.state / "a.yaml"
        a.write_text(harness.digits_job("a", steps=5))
        b = self.server.state / "b.yaml"
        b.write_text(harness.digits_job("b", steps=6))
        first = self.server.json("submit", a, "--request-id", "one")
        again = self.server.json("submit", a, "--request-id", "one")
        self.assertEqual(first["id"], again["id"])
        text = self.server.cli("submit", b, "--request-id", "one", code=6)
        self.assertIn("one", text)

    def test_dataset_with_a_broken_line_names_line_and_column(self):
        rows = gzip.decompress(harness.DIGITS.read_bytes()).decode().splitlines()
        words = rows[41].split(",")
        words[6] = "five"
        rows[41] = ",".join(words)
        path = self.server.state / "broken.csv"
        path.write_text("\n".join(rows) + "\n")
        text = self.server.cli("datasets", "upload", "broken", path, code=2)
        for fragment in ("line 42", "column 7", "five"):
            self.assertIn(fragment, text)
        self.server.cli("datasets", "get", "broken", code=3)

    def test_bytes_that_are_not_utf8_are_named_and_escaped(self):
        text = self.server.state / "good.txt"
        text.write_text("the cat\n")
        table = self.server.state / "tokx"
        table.write_bytes(b"<unk>\n\xff\n")
        error = self.server.cli("datasets", "upload", "q1", text, "--tokens", table, code=2)
        self.assertIn("tokx: line 2 is not UTF-8", error)
        table.write_bytes(b"<unk>\na\0b\n")
        error = self.server.cli("datasets", "upload", "q1", text, "--tokens", table, code=2)
        self.assertIn("tokx: line 2 has a byte of zero", error)
        # Python hands the bytes of such names to the system as they are.
        named = self.server.state / "\udcff.txt"
        named.write_text("the cat\n")
        for arguments, message in (
                (("datasets", "upload", "q1", named), r"files.file_name is '\xff.txt'"),
                (("datasets", "upload", "\udcff", text), r"name is '\xff'"),
                (("datasets", "get", "\udcff"), r"name is '\xff'"),
                (("models", "get", "\udcff"), r"name is '\xff'")):
            error = self.server.cli(*arguments, code=2)
            self.assertIn(message + ", which is not UTF-8", error)
            self.assertNotIn("libprotobuf", error)
        self.server.cli("datasets", "get", "q1", code=3)

    def test_dataset_with_a_wrong_checksum(self):
        import grpc
        load = harness.stubs()
        pb, rpc = load("gpupool.v1.dataset")
        data = harness.DIGITS.read_bytes()

        def messages(digest):
            header = pb.UploadDatasetRequest.Header(name="sums")
            header.files.add(role=pb.DatasetFile.TABLE, file_name="digits.csv.gz",
                             total_bytes=len(data), sha256=digest)
            yield pb.UploadDatasetRequest(header=header)
            for at in range(0, len(data), 1 << 20):
                chunk = pb.UploadDatasetRequest.Chunk(data=data[at:at + (1 << 20)])
                yield pb.UploadDatasetRequest(chunk=chunk)

        stub = rpc.DatasetServiceStub(self.server.channel())
        with self.assertRaises(grpc.RpcError) as caught:
            stub.UploadDataset(messages("0" * 64), timeout=harness.PATIENCE)
        self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT, caught.exception.code())
        self.assertIn("sha256", caught.exception.details())
        right = stub.UploadDataset(messages(hashlib.sha256(data).hexdigest()),
                                   timeout=harness.PATIENCE)
        self.assertEqual(1797, right.rows)


class BadInference(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        import tempfile
        cls.state = tempfile.mkdtemp(prefix="gpupool-test-")
        cls.server = harness.Server(cls.state, ("--devices", "cpu:1")).start()
        cls.server.upload_digits()
        cls.server.wait_job(cls.server.submit(
            harness.digits_job(steps=50, publish="true")))
        cls.server.cli("models", "load", "digits", "--wait")
        load = harness.stubs()
        cls.pb, cls.rpc = load("inference.grpc_service")

    @classmethod
    def tearDownClass(cls):
        import shutil
        cls.server.stop()
        shutil.rmtree(cls.state, ignore_errors=True)

    def infer(self, model="digits", version="", name="input", datatype="FP32",
              shape=(1, 1, 8, 8), raw=None):
        request = self.pb.ModelInferRequest(model_name=model, model_version=version)
        request.inputs.add(name=name, datatype=datatype, shape=list(shape))
        request.raw_input_contents.append(
            struct.pack("<64f", *range(64)) if raw is None else raw)
        stub = self.rpc.GRPCInferenceServiceStub(self.server.channel())
        return stub.ModelInfer(request, timeout=harness.PATIENCE)

    def refused(self, code, *fragments, **options):
        import grpc
        with self.assertRaises(grpc.RpcError) as caught:
            self.infer(**options)
        self.assertEqual(getattr(grpc.StatusCode, code), caught.exception.code())
        for fragment in fragments:
            self.assertIn(fragment, caught.exception.details())
        self.infer()  # the server still answers a good request

    def test_a_good_request_answers_ten_numbers(self):
        answer = self.infer()
        self.assertEqual(("digits", "1"), (answer.model_name, answer.model_version))
        self.assertEqual([1, 10], list(answer.outputs[0].shape))
        self.assertEqual(40, len(answer.raw_output_contents[0]))

    def test_unknown_model(self):
        self.refused("NOT_FOUND", "nothing", model="nothing")

    def test_unknown_version(self):
        self.refused("NOT_FOUND", "digits", "7", version="7")

    def test_version_that_is_not_a_number(self):
        self.refused("INVALID_ARGUMENT", "seven", version="seven")

    def test_wrong_input_name(self):
        self.refused("INVALID_ARGUMENT", "pixels", "input", name="pixels")

    def test_wrong_data_type(self):
        self.refused("INVALID_ARGUMENT", "INT64", "FP32", datatype="INT64",
                     raw=b"\0" * 512)

    def test_wrong_shape(self):
        self.refused("INVALID_ARGUMENT", "[1,1,9,9]", shape=(1, 1, 9, 9),
                     raw=b"\0" * 324)

    def test_wrong_byte_count(self):
        self.refused("INVALID_ARGUMENT", "255", "256", raw=b"\0" * 255)

    def test_shape_that_overflows(self):
        self.refused("INVALID_ARGUMENT", shape=(2**62, 1, 8, 8))

    def test_batch_above_the_limit(self):
        self.refused("INVALID_ARGUMENT", "batch-size must be <= ", shape=(5000, 1, 8, 8),
                     raw=b"\0" * (5000 * 256))


if __name__ == "__main__":
    harness.main()
