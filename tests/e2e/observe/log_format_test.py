#!/usr/bin/env python3
"""The log as JSON (--log-format json): every line of the daemon and of its workers,
through a job, the death of a worker and the stop of the server."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402

IDS = {"event", "job", "attempt", "device", "model", "version", "pid"}


def frame(kind, stream, payload):
    """Returns a frame of HTTP/2, with the end of the headers."""
    return (len(payload).to_bytes(3, "big") + bytes([kind, 4 if stream else 0]) +
            stream.to_bytes(4, "big") + payload)


class LogFormat(harness.TestCase):
    def parse(self, text, source):
        """Returns the lines of a log, each of which must be whole and in the form."""
        self.assertTrue(text.endswith("\n"), text[-200:])
        lines = []
        for text_line in text.splitlines():
            try:
                line = json.loads(text_line)
            except ValueError:
                self.fail(f"not JSON: {text_line}")
            self.assertEqual(["time", "level", "message", "source"], list(line)[:4])
            self.assertLessEqual(set(line) - {"time", "level", "message", "source"}, IDS)
            self.assertRegex(line["time"],
                             r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
            self.assertIn(line["level"], ("debug", "info", "warning", "error"))
            self.assertEqual(source, line["source"])
            for value in line.values():
                self.assertIsInstance(value, str)
            lines.append(line)
        return lines

    def find(self, lines, begin, **ids):
        found = [line for line in lines if line["message"].startswith(begin)
                 and all(line.get(name) == value for name, value in ids.items())]
        self.assertTrue(found, f"no line '{begin}' with {ids} in {lines}")
        return found

    def worker_log(self, server, device):
        path = server.state / "workers" / device.replace(":", "-") / "log"
        return self.parse(path.read_text(), "gpupool-worker")

    def test_every_line_of_the_daemon_and_of_its_workers_is_an_object(self):
        hold = self.hold()
        server = self.start("--devices", "cpu:1", "--log-format", "json")
        server.upload_digits()
        hold.at(150)
        job = server.submit(harness.digits_job(steps=300, publish="true"))
        hold.wait()
        killed = server.worker_pids()["cpu:0"]
        os.kill(killed, signal.SIGKILL)
        self.assertEqual("SUCCEEDED", server.wait_job(job)["state"])
        harness.wait_until(lambda: "version ready" in server.log(),
                           what="the published version")
        self.assertEqual(0, server.terminate())

        daemon = self.parse(server.log(), "gpupoold")
        self.find(daemon, "serving listen=")
        self.find(daemon, "worker spawned", device="cpu:0", pid=str(killed))
        lost = self.find(daemon, "worker lost", device="cpu:0")
        self.assertEqual("warning", lost[0]["level"])
        self.find(daemon, "version ready", model="digits", version="1",
                  device="cpu:0")
        self.find(daemon, "stopped")

        worker = self.worker_log(server, "cpu:0")
        for attempt in ("1", "2"):
            self.find(worker, "job started", job=str(job), attempt=attempt,
                      device="cpu:0")
        self.find(worker, "job ended", job=str(job), attempt="2")
        self.assertEqual({"cpu:0"}, {line["device"] for line in worker})
        for device in ("meta", "rehearsal"):
            self.find(self.worker_log(server, device), "worker starts", device=device)

    def reason_of_failed_start(self, state, grpc_port=0):
        """Returns the last message of a server that cannot start."""
        done = subprocess.run(
            [harness.BIN / "gpupoold", "--state-dir", state, "--devices", "cpu:1",
             "--grpc-port", str(grpc_port), "--http-port", "0", "--metrics-port", "0",
             "--log-format", "json"],
            capture_output=True, text=True, timeout=harness.PATIENCE)
        self.assertEqual(69, done.returncode, done.stderr)
        last = [json.loads(line) for line in done.stderr.splitlines()][-1]
        self.assertEqual("critical", last["level"])
        return last["message"]

    def test_a_server_that_cannot_start_says_so_in_a_line(self):
        server = self.start("--devices", "cpu:1", "--log-format", "json")
        reason = self.reason_of_failed_start(server.state)
        self.assertIn("the server cannot start", reason)
        self.assertIn(str(server.state), reason)

    def test_a_port_that_is_taken_is_told_in_lines(self):
        server = self.start("--devices", "cpu:1")
        folder = tempfile.TemporaryDirectory(prefix="gpupool-test-")
        self.addCleanup(folder.cleanup)
        # Ends the workers that the second server has started.
        self.addCleanup(harness.Server(folder.name, []).stop)
        taken = server.ports["grpc_port"]
        self.assertIn(str(taken), self.reason_of_failed_start(folder.name, taken))

    def test_text_stays_the_default(self):
        server = self.start("--devices", "cpu:1")
        self.assertRegex(server.log(), r"^\d{4}-\S+Z info ")

    def test_a_header_of_a_stranger_begins_no_line(self):
        server = self.start("--devices", "cpu:1")
        header = b"\0\x07:scheme\x06\nFAKE\x1b"  # a literal of HPACK
        with socket.create_connection(("127.0.0.1", server.ports["grpc_port"]),
                                      harness.PATIENCE) as stranger:
            stranger.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, b"") +
                             frame(1, 1, header))
            harness.wait_until(lambda: "FAKE" in server.log(), what="a line of gRPC")
        self.assertIn("\\nFAKE\\x1b", server.log())
        for line in server.log().splitlines():
            self.assertRegex(line, r"^\d{4}-\S+Z [a-z]+ ")


if __name__ == "__main__":
    harness.main()
