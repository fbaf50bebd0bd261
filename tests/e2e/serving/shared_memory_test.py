#!/usr/bin/env python3
"""Tensors in POSIX shared memory, from a client with raw stubs and over HTTP."""
import contextlib
import json
import multiprocessing.shared_memory
import os
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
    import onnx
    from models_test import TensorProto, helper, make_model

SHM = pathlib.Path("/dev/shm")
VALUES = (1.0, -2.5, 3.0, 4.5)
DOUBLED = tuple(2 * value for value in VALUES)
BYTES = 4 * len(VALUES)
PAGE = 4096
NOBODY = 65534


def floats(values):
    return struct.pack(f"<{len(values)}f", *values)


def double_model():
    """Returns a model whose output is twice its input, rows of two numbers."""
    of = ["batch", 2]
    return make_model([helper.make_node("Add", ["x", "x"], ["y"], name="add")],
                      [("x", TensorProto.FLOAT, of)], [("y", TensorProto.FLOAT, of)], {})


@unittest.skipIf(models_test.onnx is None,
                 "python3-onnx and python3-numpy are not installed")
@unittest.skipUnless(os.access(SHM, os.W_OK), "there is no /dev/shm")
class SharedMemoryCase(harness.TestCase):
    def serve(self, *options):
        import grpc
        folder = tempfile.TemporaryDirectory(prefix="gpupool-shared-")
        self.addCleanup(folder.cleanup)
        model = pathlib.Path(folder.name, "double/1/model.onnx")
        model.parent.mkdir(parents=True)
        onnx.save(double_model(), str(model))
        self.server = self.start("--devices", "cpu:1", "--model-repository", folder.name,
                                 *options)
        self.pb, self.rpc = harness.stubs()("inference.grpc_service")
        self.grpc = grpc
        self.channel = self.server.channel()
        self.addCleanup(self.channel.close)
        self.stub = self.rpc.GRPCInferenceServiceStub(self.channel)
        harness.wait_until(lambda: self.stub.ServerReady(self.pb.ServerReadyRequest()).ready,
                           what="the server to be ready")

    def memory(self, size=PAGE):
        memory = multiprocessing.shared_memory.SharedMemory(create=True, size=size)

        def end():
            memory.close()
            with contextlib.suppress(FileNotFoundError):
                memory.unlink()
        self.addCleanup(end)
        return memory

    @staticmethod
    def key(memory):
        return "/" + memory.name.lstrip("/")

    def register(self, name, key, byte_size=PAGE, offset=0, stub=None, **call):
        (stub or self.stub).SystemSharedMemoryRegister(
            self.pb.SystemSharedMemoryRegisterRequest(
                name=name, key=key, offset=offset, byte_size=byte_size), **call)

    def regions(self, **call):
        return dict(self.stub.SystemSharedMemoryStatus(
            self.pb.SystemSharedMemoryStatusRequest(), **call).regions)

    def unregister(self, name="", **call):
        self.stub.SystemSharedMemoryUnregister(
            self.pb.SystemSharedMemoryUnregisterRequest(name=name), **call)

    def place(self, tensor, region, offset, byte_size):
        tensor.parameters["shared_memory_region"].string_param = region
        tensor.parameters["shared_memory_offset"].int64_param = offset
        tensor.parameters["shared_memory_byte_size"].int64_param = byte_size

    def request(self, source=None, target=None):
        """Returns a request whose input or output is at (region, offset, bytes)."""
        request = self.pb.ModelInferRequest(model_name="double")
        tensor = request.inputs.add(name="x", datatype="FP32", shape=[2, 2])
        if source:
            self.place(tensor, *source)
        else:
            request.raw_input_contents.append(floats(VALUES))
        if target:
            self.place(request.outputs.add(name="y"), *target)
        return request

    def refused(self, code, words, call, *arguments, **options):
        with self.assertRaises(self.grpc.RpcError) as raised:
            call(*arguments, **options)
        self.assertEqual(code, raised.exception.code(), raised.exception.details())
        self.assertIn(words, raised.exception.details())

    def http(self, path, body=None, headers=None):
        """Returns the status and the JSON of an answer; a body makes it a POST."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.server.ports['http_port']}/v2/{path}",
            data=None if body is None else json.dumps(body).encode(), headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=harness.PATIENCE) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())


class OverGrpc(SharedMemoryCase):
    def setUp(self):
        super().setUp()
        self.serve("--shared-memory", "on")

    def test_tensors_come_from_memory_and_go_to_it(self):
        memory = self.memory()
        self.assertIn("system_shared_memory",
                      self.stub.ServerMetadata(self.pb.ServerMetadataRequest()).extensions)
        # The first calls of the samples of Triton's client.
        self.unregister()
        self.stub.CudaSharedMemoryUnregister(self.pb.CudaSharedMemoryUnregisterRequest())
        self.register("all", self.key(memory))
        self.register("half", self.key(memory), PAGE // 2, PAGE // 2)
        self.assertEqual({"all", "half"}, set(self.regions()))
        self.assertEqual((self.key(memory), PAGE // 2, PAGE // 2),
                         (self.regions()["half"].key, self.regions()["half"].offset,
                          self.regions()["half"].byte_size))
        memory.buf[16:16 + BYTES] = floats(VALUES)
        answer = self.stub.ModelInfer(self.request(("all", 16, BYTES), ("half", 8, 64)))
        at = PAGE // 2 + 8
        self.assertEqual(DOUBLED, struct.unpack("<4f", memory.buf[at:at + BYTES]))
        self.assertEqual([b""], list(answer.raw_output_contents))
        self.assertEqual([2, 2], list(answer.outputs[0].shape))
        self.assertEqual(("half", 8, 64), (
            answer.outputs[0].parameters["shared_memory_region"].string_param,
            answer.outputs[0].parameters["shared_memory_offset"].int64_param,
            answer.outputs[0].parameters["shared_memory_byte_size"].int64_param))
        # Each side alone.
        answer = self.stub.ModelInfer(self.request(("all", 16, BYTES)))
        self.assertEqual(floats(DOUBLED), answer.raw_output_contents[0])
        self.stub.ModelInfer(self.request(target=("all", 128, BYTES)))
        self.assertEqual(floats(DOUBLED), bytes(memory.buf[128:128 + BYTES]))
        self.unregister("half")
        self.assertEqual({"all"}, set(self.regions()))
        self.unregister()
        self.assertEqual({}, self.regions())
        self.refused(self.grpc.StatusCode.NOT_FOUND, "'all'", self.stub.ModelInfer,
                     self.request(("all", 16, BYTES)))

    def test_what_is_wrong_is_refused_in_words(self):
        memory = self.memory()
        code = self.grpc.StatusCode
        for key in ("", "x", "//x", "/../etc/passwd", "/a/b", "/sem.x", "/" + "x" * 256):
            self.refused(code.INVALID_ARGUMENT, "key", self.register, "r", key)
        self.refused(code.NOT_FOUND, "Unable to open shared memory region",
                     self.register, "r", "/gpupool-none")
        for offset, size in ((PAGE, 1), (1, PAGE), (2**64 - 1, 1)):
            self.refused(code.INVALID_ARGUMENT, f"has {PAGE} bytes", self.register, "r",
                         self.key(memory), size, offset)
        self.refused(code.RESOURCE_EXHAUSTED, "the tenant have 0 of at most", self.register,
                     "r", self.key(memory), 2**64 - 1, 1)
        link = SHM / f"gpupool-link-{os.getpid()}"
        link.symlink_to("/etc/passwd")
        self.addCleanup(link.unlink)
        self.refused(code.NOT_FOUND, "Unable to open", self.register, "r", f"/{link.name}", 1)
        self.register("r", self.key(memory))
        self.refused(code.ALREADY_EXISTS, "already in manager", self.register, "r",
                     self.key(memory))
        for offset, size in ((PAGE, BYTES), (2**63 - 1, BYTES), (0, 2**63 - 1)):
            self.refused(code.INVALID_ARGUMENT, f"has {PAGE} bytes", self.stub.ModelInfer,
                         self.request(("r", offset, size)))
            self.refused(code.INVALID_ARGUMENT, f"has {PAGE} bytes", self.stub.ModelInfer,
                         self.request(None, ("r", offset, size)))
        self.refused(code.INVALID_ARGUMENT, "shared_memory_byte_size of 8",
                     self.stub.ModelInfer, self.request(("r", 0, 8)))
        memory.buf[:BYTES] = b"." * BYTES
        self.refused(code.INTERNAL, "should be at least 16 bytes", self.stub.ModelInfer,
                     self.request(None, ("r", 0, 8)))
        self.assertEqual(b"." * BYTES, bytes(memory.buf[:BYTES]))
        self.refused(code.UNIMPLEMENTED, "CUDA", self.stub.CudaSharedMemoryRegister,
                     self.pb.CudaSharedMemoryRegisterRequest(name="c", byte_size=8))

    def test_memory_that_is_truncated_fails_requests_and_not_the_server(self):
        memory = self.memory()
        self.register("r", self.key(memory))
        os.truncate(SHM / memory.name.lstrip("/"), 0)
        code = self.grpc.StatusCode.FAILED_PRECONDITION
        self.refused(code, "has become smaller", self.stub.ModelInfer,
                     self.request(("r", 0, BYTES)))
        self.refused(code, "has become smaller", self.stub.ModelInfer,
                     self.request(None, ("r", 0, BYTES)))
        self.assertEqual(0, (SHM / memory.name.lstrip("/")).stat().st_size)
        self.stub.ModelInfer(self.request())
        self.assertIsNone(self.server.process.poll())

    def test_the_socket_may_register_too(self):
        memory = self.memory()
        with self.grpc.insecure_channel(f"unix:{self.server.state}/gpupoold.sock") as channel:
            stub = self.rpc.GRPCInferenceServiceStub(channel)
            self.register("r", self.key(memory), stub=stub)
            stub.ModelInfer(self.request(None, ("r", 0, BYTES)))
        self.assertEqual(floats(DOUBLED), bytes(memory.buf[:BYTES]))

    @unittest.skipUnless(os.geteuid() == 0, "only root makes files of other users")
    def test_private_memory_of_another_user_is_not_reached(self):
        memory = self.memory()
        path = SHM / memory.name.lstrip("/")
        os.chown(path, NOBODY, NOBODY)
        self.refused(self.grpc.StatusCode.NOT_FOUND, "Unable to open", self.register, "r",
                     self.key(memory))
        os.chmod(path, 0o666)
        self.register("r", self.key(memory))


class OverHttp(SharedMemoryCase):
    def test_the_routes_and_tensors_of_json(self):
        self.serve("--shared-memory", "on")
        memory = self.memory()
        base = "systemsharedmemory"
        self.assertEqual((200, []), self.http(f"{base}/status"))
        self.assertEqual((200, {}), self.http("cudasharedmemory/unregister", {}))
        self.assertEqual((200, []), self.http("cudasharedmemory/status"))
        self.assertEqual(501, self.http("cudasharedmemory/region/c/register", {})[0])
        self.assertEqual((200, {}), self.http(f"{base}/region/r/register", {
            "key": self.key(memory), "byte_size": PAGE}))
        of_r = [{"name": "r", "key": self.key(memory), "offset": 0, "byte_size": PAGE}]
        self.assertEqual((200, of_r), self.http(f"{base}/region/r/status"))
        self.assertEqual(404, self.http(f"{base}/region/none/status")[0])
        self.assertEqual(400, self.http(f"{base}/region/s/register", {"key": "x"})[0])
        memory.buf[:BYTES] = floats(VALUES)
        at = {"shared_memory_region": "r", "shared_memory_offset": 64,
              "shared_memory_byte_size": BYTES}
        status, answer = self.http("models/double/infer", {
            "inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 2], "parameters": {
                "shared_memory_region": "r", "shared_memory_byte_size": BYTES}}],
            "outputs": [{"name": "y", "parameters": at}]})
        self.assertEqual(200, status, answer)
        self.assertEqual([{"name": "y", "datatype": "FP32", "shape": [2, 2],
                           "parameters": at}], answer["outputs"])
        self.assertEqual(floats(DOUBLED), bytes(memory.buf[64:64 + BYTES]))
        self.assertEqual((200, {}), self.http(f"{base}/region/r/unregister", {}))
        self.assertEqual((200, {}), self.http(f"{base}/unregister", {}))
        self.assertEqual((200, []), self.http(f"{base}/status"))


class Switch(SharedMemoryCase):
    def test_it_is_off_by_default(self):
        self.serve()
        memory = self.memory()
        code, words = self.grpc.StatusCode.UNIMPLEMENTED, "shared memory is disabled"
        self.refused(code, words, self.register, "r", self.key(memory))
        self.refused(code, words, self.regions)
        self.refused(code, words, self.unregister)
        self.refused(code, words, self.stub.ModelInfer, self.request(("r", 0, BYTES)))
        self.assertEqual(501, self.http("systemsharedmemory/status")[0])
        self.assertNotIn("system_shared_memory",
                         self.stub.ServerMetadata(self.pb.ServerMetadataRequest()).extensions)


    def test_private_memory_is_its_users_also_where_nobody_needs_a_token(self):
        self.serve("--shared-memory", "on", "--auth", "none")
        memory = self.memory()
        self.assertEqual(0o600, (SHM / memory.name.lstrip("/")).stat().st_mode & 0o777)
        self.register("r", self.key(memory))
        self.assertEqual((200, {}), self.http("systemsharedmemory/region/s/register", {
            "key": self.key(memory), "byte_size": PAGE}))
        self.stub.ModelInfer(self.request(None, ("s", 0, BYTES)))
        self.assertEqual(floats(DOUBLED), bytes(memory.buf[:BYTES]))


class Tenants(SharedMemoryCase):
    def token(self, role, tenant):
        secret = self.server.cli("--token-file", self.server.state / "admin-token", "tokens",
                                 "create", "--role", role, "--tenant", tenant)
        return f"Bearer {secret.strip()}"

    def test_a_region_is_of_its_tenant(self):
        self.serve("--shared-memory", "on", "--auth", "tokens")
        memory = self.memory()
        lab, ward, viewer = ({"metadata": (("authorization", self.token(role, tenant)),)}
                             for role, tenant in (("user", "lab"), ("user", "ward"),
                                                  ("viewer", "lab")))
        code = self.grpc.StatusCode
        self.refused(code.PERMISSION_DENIED, "needs the role user", self.register, "r",
                     self.key(memory), **viewer)
        self.register("r", self.key(memory), **lab)
        self.assertEqual({"r"}, set(self.regions(**viewer)))
        self.assertEqual({}, self.regions(**ward))
        request = self.request(None, ("r", 0, BYTES))
        self.refused(code.NOT_FOUND, "'r'", self.stub.ModelInfer, request, **ward)
        self.unregister(**ward)
        self.stub.ModelInfer(request, **lab)
        self.assertEqual(floats(DOUBLED), bytes(memory.buf[:BYTES]))
        header = {"Authorization": lab["metadata"][0][1]}
        self.assertEqual(["r"], [region["name"] for region in self.http(
            "systemsharedmemory/status", headers=header)[1]])
        header = {"Authorization": ward["metadata"][0][1]}
        self.assertEqual((200, []), self.http("systemsharedmemory/status", headers=header))


if __name__ == "__main__":
    harness.main()
