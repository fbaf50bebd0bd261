#!/usr/bin/env python3
"""A server with the shipped defaults: its own user and root may do everything over
the ports of this machine, and every other user nothing."""
import encodings.idna  # noqa: F401  (nobody may be unable to read it later)
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402

NOBODY = 65534
DENIED, FAILED_PRECONDITION = 4, 6  # exit codes of gpupool
OPEN = ("/v2/health/live", "/v2/health/ready", "/", "/web/main.js")
# Calls over HTTP: method, path, body.
REQUESTS = (
    ("GET", "/v2", None),
    ("GET", "/v2/models/stats", None),
    ("GET", "/api", None),
    ("POST", "/v2/models/digits/infer", {"inputs": []}),
    ("POST", "/v2/repository/index", {}),
    ("POST", "/v2/logging", {}),
    ("POST", "/api/gpupool.v1.JobService/ListJobs", {}),
    ("POST", "/api/gpupool.v1.JobService/CancelJob", {"id": 1}),
    ("POST", "/api/gpupool.v1.DatasetService/DeleteDataset", {"name": "digits"}),
    ("POST", "/api/gpupool.v1.AdminService/Drain", {"stop": True}),
    ("POST", "/api/gpupool.v1.AuthService/CreateToken", {"role": "ADMIN"}),
    ("POST", "/api/gpupool.v1.JobService/None", {}),
)
VERBS = (("jobs",), ("devices",), ("cancel", "1"), ("datasets", "delete", "digits"),
         ("admin", "drain", "--stop"), ("tokens", "list"),
         ("tokens", "create", "--role", "admin"))


def ask(port, method, path, body, **headers):
    """Returns the status and the body of the answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=harness.PATIENCE)
    try:
        connection.request(method, path, None if body is None else json.dumps(body),
                           {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def as_user(uid, work):
    """Calls `work` in a process of a user and returns what it returns, as JSON."""
    ends = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            os.write(ends[1], json.dumps(work()).encode())
        except Exception:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(ends[1])
    with os.fdopen(ends[0], "rb") as told:
        text = told.read()
    os.waitpid(pid, 0)
    return json.loads(text)


class Case(harness.TestCase):
    def setUp(self):
        self.server = self.start("--devices", "cpu:1")
        self.port = self.server.ports["http_port"]

    def run_cli(self, *arguments, code=0, program=None, **options):
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("GPUPOOL")}
        command = [str(program or harness.BIN / "gpupool"), "--address", self.server.address, *map(str, arguments)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True,
                              cwd="/", timeout=harness.PATIENCE, **options)
        if done.returncode != code:
            raise harness.CommandFailed(command, done)
        return done.stdout if code == 0 else done.stderr


class OwnUser(Case):
    def test_what_worked_without_a_flag_works(self):
        self.server.upload_digits()
        job = self.server.submit(harness.digits_job(steps=20, publish="true"))
        self.assertEqual("SUCCEEDED", self.server.wait_job(job)["state"])
        for path in (*OPEN, "/v2", "/api"):
            self.assertEqual(200, ask(self.port, "GET", path, None)[0], path)
        self.assertEqual(200, ask(self.port, "POST",
                                  "/api/gpupool.v1.JobService/ListJobs", {})[0])
        self.assertEqual(404, ask(self.port, "POST", "/api/gpupool.v1.JobService/None", {})[0])
        # A header that is no token, as of a proxy.
        self.assertEqual(200, ask(self.port, "GET", "/v2", None, Authorization="Basic YTpi")[0])
        self.run_cli("admin", "drain", "--stop")
        self.assertEqual(0, self.server.process.wait(harness.PATIENCE))

    def test_a_token_counts_and_ends_when_it_is_revoked(self):
        secret = self.run_cli("tokens", "create", "--role", "viewer", "--tenant", "lab").strip()
        bearer = {"Authorization": f"Bearer {secret}"}
        self.assertEqual(200, ask(self.port, "GET", "/v2", None, **bearer)[0])
        self.assertEqual(403, ask(self.port, "POST", "/v2/logging", {}, **bearer)[0])
        tokens = json.loads(self.run_cli("tokens", "list", "-o", "json"))["tokens"]
        self.run_cli("tokens", "revoke", tokens[-1]["id"])
        self.assertEqual(401, ask(self.port, "GET", "/v2", None, **bearer)[0])
        self.assertFalse((self.server.state / "admin-token").exists())

    def test_with_auth_none_tokens_do_not_count(self):
        server = self.start("--devices", "cpu:1", "--auth", "none")
        self.assertIn("--auth none", server.cli("tokens", "list", code=FAILED_PRECONDITION))

    def test_the_environment_sets_what_no_flag_does(self):
        os.environ["GPUPOOLD_AUTH"] = "tokens"
        self.addCleanup(os.environ.pop, "GPUPOOLD_AUTH")
        self.assertIn("wants a token", self.start("--devices", "cpu:1").cli("jobs", code=DENIED))
        self.start("--devices", "cpu:1", "--auth", "none").cli("jobs")

    def test_two_servers_at_one_path_take_turns(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="gpupool-socket-"))
        self.addCleanup(shutil.rmtree, folder)
        path = folder / "socket"
        first = self.start("--devices", "cpu:1", "--socket", str(path))
        # As if the first had not made it yet.
        path.rename(folder / "aside")
        with self.assertRaises(AssertionError) as refused:
            self.start("--devices", "cpu:1", "--socket", str(path))
        self.assertIn(f"another server listens at the socket {path}", str(refused.exception))
        first.kill()
        self.start("--devices", "cpu:1", "--socket", str(path))
        self.assertTrue(path.exists())


@unittest.skipIf(os.geteuid() != 0, "only root can call as nobody")
class Nobody(Case):
    def setUp(self):
        super().setUp()
        self.server.upload_digits()
        # The folder of the build may be closed to nobody.
        folder = tempfile.mkdtemp(prefix="gpupool-nobody-")
        self.addCleanup(shutil.rmtree, folder)
        os.chmod(folder, 0o755)
        self.program = pathlib.Path(shutil.copy(harness.BIN / "gpupool", folder))
        self.program.chmod(0o755)

    def as_nobody(self, *arguments, code):
        return self.run_cli(*arguments, code=code, program=self.program, user=NOBODY,
                            group=NOBODY, extra_groups=[])

    def denials(self):
        return [record for file in sorted((self.server.state / "audit").iterdir())
                for record in map(json.loads, file.read_text().split("\n")[:-1])
                if record["event"] == "denied"]

    def test_nobody_can_do_nothing_over_grpc(self):
        for verb in VERBS:
            with self.subTest(verb=verb):
                said = self.as_nobody(*verb, code=DENIED)
                self.assertIn(f"from uid {NOBODY}", said)
                self.assertIn("--token-file", said)
        self.assertIn("digits", self.run_cli("datasets", "list"))
        self.assertIsNone(self.server.process.poll())
        harness.wait_until(
            lambda: [r for r in self.denials()
                     if r["method"].endswith("/Drain") and r["uid"] == str(NOBODY)],
            what="the record of a denied call")

    def test_nobody_can_do_nothing_over_http(self):
        answers = as_user(NOBODY, lambda: [ask(self.port, *one) for one in REQUESTS])
        for one, (status, body) in zip(REQUESTS, answers):
            with self.subTest(request=one):
                self.assertEqual(401, status, body)
                self.assertIn(f"from uid {NOBODY}", body)
        for path, (status, _) in zip(OPEN, as_user(
                NOBODY, lambda: [ask(self.port, "GET", path, None) for path in OPEN])):
            self.assertEqual(200, status, path)
        self.assertIn("digits", self.run_cli("datasets", "list"))
        harness.wait_until(
            lambda: [r for r in self.denials()
                     if r["uid"] == str(NOBODY) and r["peer"].startswith("http:127.0.0.1")],
            what="the record of a denied call")

    def test_nobody_with_a_token_may_do_what_its_role_may(self):
        secret = self.run_cli("tokens", "create", "--role", "user", "--tenant", "lab").strip()
        token = self.program.parent / "token"
        token.write_text(secret)
        token.chmod(0o644)
        self.as_nobody("--token-file", token, "jobs", code=0)
        self.as_nobody("--token-file", token, "admin", "drain", "--stop", code=DENIED)
        bearer = {"Authorization": f"Bearer {secret}"}
        self.assertEqual(200, as_user(
            NOBODY, lambda: ask(self.port, "GET", "/v2", None, **bearer))[0])

    # The kernel shows the socket of a client that has closed it as root's.
    def test_who_does_not_wait_for_the_answer_is_nobody_all_the_same(self):
        self.server.process.send_signal(signal.SIGSTOP)

        def send_and_go():
            body = json.dumps({"stop": True})
            for _ in range(20):
                client = socket.create_connection(("127.0.0.1", self.port))
                client.sendall((
                    "POST /api/gpupool.v1.AdminService/Drain HTTP/1.1\r\nHost: 127.0.0.1\r\n"
                    f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                    f"{body}").encode())
                client.close()
            return 20
        sent = as_user(NOBODY, send_and_go)
        self.server.process.send_signal(signal.SIGCONT)
        harness.wait_until(lambda: len(self.denials()) == sent, what="all to be denied")
        self.run_cli("jobs")

    def test_root_calls_the_server_of_another_user(self):
        state = tempfile.mkdtemp(prefix="gpupool-own-")
        self.addCleanup(shutil.rmtree, state, ignore_errors=True)
        binaries = self.program.parent
        for name in ("gpupoold", "gpupool-worker"):
            shutil.copy(harness.BIN / name, binaries)
            (binaries / name).chmod(0o755)
        os.chown(state, NOBODY, NOBODY)
        server = harness.Server(state, ("--devices", "cpu:1"))
        self.addCleanup(server.stop)
        ports = pathlib.Path(state, "ports.json")
        with open(pathlib.Path(state, "gpupoold.log"), "ab") as log:
            server.process = subprocess.Popen(
                [binaries / "gpupoold", "--state-dir", state, "--grpc-port", "0",
                 "--http-port", "0", "--metrics-port", "0", "--port-file", ports,
                 *server.arguments], stdout=log, stderr=log, cwd="/", user=NOBODY,
                group=NOBODY, extra_groups=[])
        harness.wait_until(
            lambda: ports.exists() or server.process.poll() is not None, what="the server")
        server.ports = json.loads(ports.read_text())
        self.server = server
        self.run_cli("jobs")
        self.as_nobody("jobs", code=0)
        self.assertEqual(200, ask(server.ports["http_port"], "GET", "/v2", None)[0])
        self.assertEqual(401, as_user(
            1234, lambda: ask(server.ports["http_port"], "GET", "/v2", None))[0])


if __name__ == "__main__":
    harness.main()
