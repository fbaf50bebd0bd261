#!/usr/bin/env python3
"""Uploads that break go on where the bytes on the server end."""
import hashlib
import json
import pathlib
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
import harness  # noqa: E402

MIB = 1 << 20
ROWS, COLUMNS = 8192, 1024  # 32 MiB of float32
SEED = random.randrange(1 << 32)
print("seed", SEED)


def npy(shape, kind, data):
    """Returns a file in the format NPY 1.0."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + data


def sha256(data):
    return hashlib.sha256(data).hexdigest()


class Gate:
    """Forwards connections to a server. At `limit` bytes from clients it holds them back
    until `release`, so that a test can end either side in the middle."""

    def __init__(self, server, limit):
        self.server, self.limit = server, limit
        self.passed = 0
        self.lock = threading.Lock()
        self.reached, self.released = threading.Event(), threading.Event()
        self.listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def address(self):
        return f"127.0.0.1:{self.listener.getsockname()[1]}"

    def release(self):
        """Lets everything through from now on. Counts anew."""
        with self.lock:
            self.limit, self.passed = None, 0
        self.released.set()

    def close(self):
        self.release()
        self.listener.close()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:  # closed
                return
            try:
                server = socket.create_connection(
                    ("127.0.0.1", self.server.ports["grpc_port"]))
            except OSError:  # the server is away
                client.close()
                continue
            for source, sink, counted in ((client, server, True), (server, client, False)):
                threading.Thread(target=self.forward, args=(source, sink, counted),
                                 daemon=True).start()

    def forward(self, source, sink, counted):
        try:
            while data := source.recv(1 << 16):
                if counted:
                    self.count(len(data))
                sink.sendall(data)
        except OSError:
            pass
        for end in (source, sink):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def count(self, size):
        with self.lock:
            self.passed += size
            held = self.limit is not None and self.passed > self.limit
        if held:
            self.reached.set()
            self.released.wait()


class UploadsTest(harness.TestCase):
    def files(self):
        """Returns a folder with a data set in two files, and the bytes of the large one."""
        folder = tempfile.TemporaryDirectory(prefix="gpupool-uploads-")
        self.addCleanup(folder.cleanup)
        numbers = random.Random(SEED)
        # Random bytes may be no numbers, but these are about 0.125.
        rows = [bytes([0, 0, numbers.randrange(128), 0x3e]) for _ in range(COLUMNS)]
        row = b"".join(rows)
        data = npy((ROWS, COLUMNS), "<f4",
                   b"".join(row[4 * (i % 7):] + row[:4 * (i % 7)] for i in range(ROWS)))
        labels = b"".join((i % 3).to_bytes(8, "little") for i in range(ROWS))
        path = pathlib.Path(folder.name)
        (path / "x.npy").write_bytes(data)
        (path / "y.npy").write_bytes(npy((ROWS,), "<i8", labels))
        return path, data

    def upload(self, gate, folder):
        return self.run_cli(gate, "datasets", "upload", "large", folder / "x.npy",
                            "--labels", folder / "y.npy", "-o", "json")

    def run_cli(self, gate, *arguments):
        process = subprocess.Popen(
            [harness.BIN / "gpupool", "--address", gate.address, *map(str, arguments)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=harness.ROOT)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def gate(self, server, limit):
        gate = Gate(server, limit)
        self.addCleanup(gate.close)
        return gate

    def kept(self, server, data):
        """Returns the size of the partial file; 0 if there is none."""
        path = server.state / "blobs/partial" / sha256(data)
        return path.stat().st_size if path.exists() else 0

    def await_kept(self, server, data, least):
        return harness.wait_until(
            lambda: self.kept(server, data) >= least and self.kept(server, data),
            what=f"{least} bytes on the server")

    def check_whole(self, server, process, data):
        """Checks that the upload ends well and that the server has the right bytes."""
        out, err = process.communicate(timeout=harness.PATIENCE)
        self.assertEqual(0, process.returncode, err)
        self.assertIn("resumed at", err)
        self.assertEqual(sha256(data), json.loads(out)["files"][0]["sha256"])
        self.assertEqual(sha256(data), sha256(
            (server.state / "blobs" / sha256(data)).read_bytes()))
        harness.wait_until(lambda: not list((server.state / "blobs/partial").iterdir()),
                           what="the partial files to go")

    def test_goes_on_after_a_kill_of_the_server(self):
        server = self.start("--devices", "cpu:1")
        folder, data = self.files()
        gate = self.gate(server, 16 * MIB)
        process = self.upload(gate, folder)
        self.assertTrue(gate.reached.wait(harness.PATIENCE))
        self.await_kept(server, data, 8 * MIB)
        server.kill()
        kept = self.kept(server, data)
        self.assertFalse((server.state / "blobs" / sha256(data)).exists())
        server.start()
        gate.release()
        self.check_whole(server, process, data)
        self.assertLess(gate.passed, len(data) - kept + 4 * MIB)

    def test_goes_on_after_a_kill_of_the_client(self):
        server = self.start("--devices", "cpu:1")
        folder, data = self.files()
        gate = self.gate(server, 16 * MIB)
        process = self.upload(gate, folder)
        self.assertTrue(gate.reached.wait(harness.PATIENCE))
        kept = self.await_kept(server, data, 8 * MIB)
        process.kill()
        process.wait()
        gate.release()
        self.check_whole(server, self.upload(gate, folder), data)
        self.assertLess(gate.passed, len(data) - kept + 4 * MIB)

    def test_goes_on_after_ctrl_c_and_sigterm_of_the_server(self):
        server = self.start("--devices", "cpu:1")
        folder, data = self.files()
        gate = self.gate(server, 16 * MIB)
        process = self.upload(gate, folder)
        self.assertTrue(gate.reached.wait(harness.PATIENCE))
        self.await_kept(server, data, 8 * MIB)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=harness.PATIENCE)
        self.assertEqual(130, process.returncode, err)
        gate.release()
        server.terminate()
        self.assertGreaterEqual(self.kept(server, data), 8 * MIB)
        server.start()
        self.check_whole(server, self.upload(gate, folder), data)

    def test_a_file_of_a_model_goes_on(self):
        server = self.start("--devices", "cpu:1")
        folder, _ = self.files()
        # No weights, which the server finds only when all bytes are there.
        data = random.Random(SEED).randbytes(24 * MIB)
        (folder / "w.safetensors").write_bytes(data)
        (folder / "net.yaml").write_text("input_shape: [4]\nlayers: [{dense: {units: 2}}]\n")
        upload = ("models", "upload", "net", folder / "net.yaml",
                  "--weights", folder / "w.safetensors")
        gate = self.gate(server, 12 * MIB)
        process = self.run_cli(gate, *upload)
        self.assertTrue(gate.reached.wait(harness.PATIENCE))
        kept = self.await_kept(server, data, 6 * MIB)
        process.kill()
        process.wait()
        gate.release()
        process = self.run_cli(gate, *upload)
        _, err = process.communicate(timeout=harness.PATIENCE)
        self.assertNotEqual(0, process.returncode)
        self.assertIn("resumed at", err)
        self.assertEqual(sha256(data), sha256(
            (server.state / "blobs" / sha256(data)).read_bytes()))
        self.assertLess(gate.passed, len(data) - kept + 4 * MIB)


class HostileUploads(harness.TestCase):
    """Streams of UploadModelFile, whose bytes the server does not read."""

    @classmethod
    def setUpClass(cls):
        cls.state = tempfile.mkdtemp(prefix="gpupool-test-")
        cls.server = harness.Server(cls.state, (
            "--devices", "cpu:1", "--upload-files", "2", "--upload-bytes", "64MiB")).start()
        load = harness.stubs()
        cls.model, model_rpc = load("gpupool.v1.model")
        cls.pb, rpc = load("gpupool.v1.upload")
        channel = cls.server.channel()
        cls.models = model_rpc.ModelServiceStub(channel)
        cls.uploads = rpc.UploadServiceStub(channel)

    @classmethod
    def tearDownClass(cls):
        import shutil
        cls.server.stop()
        shutil.rmtree(cls.state, ignore_errors=True)

    def setUp(self):
        self.random = random.Random(f"{SEED} {self.id()}")
        self.data = self.random.randbytes(3 * MIB)
        self.key = sha256(self.data)

    def messages(self, sent, offset=0, key=None, data=None, hold=None, lively=False):
        data = self.data if data is None else data
        request = self.model.UploadModelFileRequest
        header = request.Header(total_bytes=len(data), sha256=sha256(data))
        header.part.upload_key = key or self.key
        header.part.offset = offset
        yield request(header=header)
        for at in range(0, len(sent), MIB):
            yield request(chunk=sent[at:at + MIB])
        if hold is not None:
            # A stream that is silent may lose its upload. One byte at a time keeps it.
            at = len(sent)
            while not hold.wait(0.5 if lively else None):
                yield request(chunk=data[at:at + 1])
                at += 1

    def send(self, sent, offset=0, **options):
        return self.models.UploadModelFile(self.messages(sent, offset, **options),
                                           timeout=harness.PATIENCE)

    def get(self, key=None):
        """Returns what the server has of the upload, or None."""
        import grpc
        try:
            return self.uploads.GetUpload(
                self.pb.GetUploadRequest(upload_key=key or self.key),
                timeout=harness.PATIENCE)
        except grpc.RpcError as error:
            self.assertEqual(grpc.StatusCode.NOT_FOUND, error.code())
            return None

    def open(self, sent, **options):
        """Begins an upload, and returns it with its event when the bytes have arrived."""
        hold = threading.Event()
        self.addCleanup(hold.set)
        call = self.models.UploadModelFile.future(
            self.messages(sent, hold=hold, **options))

        def arrived():
            kept = self.get(options.get("key"))
            return kept and kept.bytes >= len(sent)
        harness.wait_until(arrived, what="the bytes to arrive")
        return call, hold

    def await_idle(self, key=None):
        def idle():
            kept = self.get(key)
            return kept and not kept.in_use and kept
        return harness.wait_until(idle, what="the stream to end")

    def break_after(self, sent, **options):
        call, hold = self.open(sent, **options)
        call.cancel()
        hold.set()
        return self.await_idle(options.get("key"))

    def refused(self, code, *fragments, **options):
        import grpc
        with self.assertRaises(grpc.RpcError) as caught:
            self.send(**options)
        self.assertEqual(code, caught.exception.code().name, caught.exception.details())
        for fragment in fragments:
            self.assertIn(fragment, caught.exception.details())

    def stored(self, data=None):
        data = self.data if data is None else data
        path = self.server.state / "blobs" / sha256(data)
        return path.exists() and path.read_bytes() == data

    def test_offsets_that_do_not_fit(self):
        self.refused("ABORTED", "0 of the", sent=self.data[MIB:], offset=MIB)
        self.assertEqual(MIB, self.break_after(self.data[:MIB]).bytes)
        size = len(self.data)
        self.refused("INVALID_ARGUMENT", str(size), sent=b"x", offset=size + 1)
        self.refused("INVALID_ARGUMENT", sent=b"x", offset=(1 << 64) - 1)
        self.refused("ABORTED", f"offset is {MIB + 1}", sent=b"x", offset=MIB + 1)
        self.assertEqual(MIB, self.await_idle().bytes)
        self.assertFalse(self.stored())

    def test_overlapping_bytes_are_replaced(self):
        self.break_after(self.data[:MIB] + b"x" * MIB)
        self.send(self.data[MIB:], offset=MIB)
        self.assertTrue(self.stored())

    def test_surplus_bytes(self):
        self.break_after(self.data[:2 * MIB])
        self.refused("INVALID_ARGUMENT", "announced", sent=self.data[2 * MIB:] + b"x",
                     offset=2 * MIB)
        self.assertFalse(self.stored())

    def test_wrong_kept_bytes_are_found_and_deleted(self):
        self.break_after(b"x" * MIB)
        self.refused("ABORTED", "sha256", "offset 0", sent=self.data[MIB:], offset=MIB)
        harness.wait_until(lambda: self.get() is None, what="the bytes to be deleted")
        self.assertFalse(self.stored())
        self.send(self.data)
        self.assertTrue(self.stored())

    def test_the_key_of_another_file(self):
        self.break_after(self.data[:MIB])
        other = self.random.randbytes(len(self.data))
        self.refused("INVALID_ARGUMENT", "belongs to", sent=other[MIB:], offset=MIB,
                     data=other)
        self.send(other, data=other)
        self.assertTrue(self.stored(other))
        self.assertFalse(self.stored())

    def test_two_clients_with_one_key(self):
        first, hold = self.open(self.data[:2 * MIB], lively=True)
        self.assertTrue(self.get().in_use)
        self.refused("ABORTED", "another stream", sent=self.data[2 * MIB:], offset=2 * MIB)
        self.send(self.data)
        self.assertTrue(self.stored())
        first.cancel()
        hold.set()
        kept = self.await_idle().bytes
        self.assertGreaterEqual(kept, 2 * MIB)
        self.send(self.data[kept:], offset=kept)
        self.assertTrue(self.stored())

    def test_keys_that_are_no_keys(self):
        for key in ("../gpupool.db", "A" * 64, "0" * 31, "0" * 65, "%00" * 16):
            self.refused("INVALID_ARGUMENT", "hex digits", sent=self.data, key=key)

    def test_a_partial_upload_is_no_blob(self):
        self.break_after(self.data[:2 * MIB])
        text = f"onnx: {{sha256: {self.key}, bytes: {len(self.data)}}}\n"
        path = self.server.state / "partial.yaml"
        path.write_text(text)
        with self.assertRaises(harness.CommandFailed):
            self.server.cli("models", "upload", "partial", path)

    def test_limits_name_the_value_and_the_remedy(self):
        opened = [self.open(self.data[:MIB], key=digit * 64) for digit in "ab"]
        self.refused("RESOURCE_EXHAUSTED", "at most 2", "--upload-files", sent=self.data,
                     key="c" * 64)
        for digit, (call, hold) in zip("ab", opened):
            call.cancel()
            hold.set()
            self.await_idle(digit * 64)
        # What nobody is sending makes room for what comes.
        self.break_after(self.data[:MIB], key="c" * 64)
        self.assertIsNone(self.get("a" * 64))
        self.assertIsNotNone(self.get("b" * 64))


if __name__ == "__main__":
    harness.main()
