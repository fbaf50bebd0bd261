#!/usr/bin/env python3
"""A server that wants tokens: what each role may do, over gRPC and over HTTP."""
import functools
import json
import os
import pathlib
import signal
import stat
import subprocess
import sys
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402

ROLES = ("viewer", "user", "operator", "admin")
# One method of each class: the least role, a verb of gpupool, a call over HTTP.
# With the role the call succeeds, or fails for another reason (None).
CLASSES = (
    ("viewer", ("jobs",), ("JobService/ListJobs", {}), 200),
    ("user", ("datasets", "delete", "none"), ("JobService/CancelJob", {"id": 999}), 404),
    ("operator", ("reserve", "cancel", "999"),
     ("ReservationService/CancelReservation", {"id": 999}), 404),
    ("admin", ("tokens", "list"), ("AuthService/ListTokens", {}), 200),
)
DENIED, NOT_FOUND = 4, 3  # exit codes of gpupool


class Tokens(harness.TestCase):
    def setUp(self):
        self.server = self.start("--devices", "cpu:1", "--auth", "tokens")
        self.admin = self.server.state / "admin-token"

    def create(self, role, *options, tenant="lab"):
        """Makes a token and returns the file that has it."""
        secret = self.server.cli(
            "--token-file", self.admin, "tokens", "create", "--role", role,
            "--tenant", tenant, *options)
        self.assertRegex(secret, r"^gpk_[A-Za-z0-9_-]{43}\n$")
        file = self.server.state / f"token-{len(list(self.server.state.glob('token-*')))}"
        file.write_text(secret)
        return file

    def cli(self, file, *arguments, **options):
        return self.server.cli("--token-file", file, *arguments, **options)

    def http(self, path, token="", message=None):
        """Returns the status and the body of a request."""
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.server.ports['http_port']}{path}", headers=headers,
            data=None if message is None else json.dumps(message).encode())
        try:
            with urllib.request.urlopen(request, timeout=harness.PATIENCE) as answer:
                return answer.status, answer.read().decode(), dict(answer.headers)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode(), dict(error.headers)

    def call(self, method, message, token=""):
        return self.http(f"/api/gpupool.v1.{method}", token, message)

    def test_the_first_admin_has_a_private_file_that_the_log_names(self):
        self.assertEqual(0o600, stat.S_IMODE(self.admin.stat().st_mode))
        self.assertIn(f"GPUPOOL_TOKEN_FILE={self.admin}", self.server.log())
        self.assertNotIn(self.admin.read_text().strip(), self.server.log())
        environment = dict(os.environ, GPUPOOL_TOKEN_FILE=str(self.admin))
        done = subprocess.run(
            [harness.BIN / "gpupool", "--address", self.server.address, "devices"],
            env=environment, capture_output=True, text=True, timeout=harness.PATIENCE)
        self.assertEqual(0, done.returncode, done.stderr)

    def test_each_role_may_do_what_those_before_it_may(self):
        for role in ROLES:
            file = self.create(role)
            for least, verb, (method, message), status in CLASSES:
                may = ROLES.index(role) >= ROLES.index(least)
                expected = DENIED if not may else 0 if status == 200 else NOT_FOUND
                with self.subTest(role=role, verb=verb):
                    self.cli(file, *verb, code=expected)
                with self.subTest(role=role, method=method):
                    code, body, _ = self.call(method, message, file.read_text().strip())
                    self.assertEqual(status if may else 403, code, body)
                    if not may:
                        self.assertIn(f"needs the role {least}", body)

    def test_without_a_token_only_probes_and_the_page_answer(self):
        self.assertIn("--token-file", self.server.cli("jobs", code=DENIED))
        for path in ("/v2/health/live", "/v2/health/ready", "/", "/web/main.js"):
            self.assertEqual(200, self.http(path)[0], path)
        for path in ("/v2", "/v2/models/none", "/v2/models/stats", "/v2/logging", "/api"):
            code, body, headers = self.http(path)
            self.assertEqual(401, code, path)
            self.assertIn("Bearer", headers["WWW-Authenticate"])
        code, body, _ = self.call("JobService/ListJobs", {})
        self.assertEqual((401, "UNAUTHENTICATED"), (code, json.loads(body)["code"]))

    def test_reflection_and_health_over_grpc(self):
        import grpc
        pb, services = harness.stubs()("inference.grpc_service")
        with self.server.channel() as channel:
            stub = services.GRPCInferenceServiceStub(channel)
            self.assertTrue(stub.ServerReady(pb.ServerReadyRequest(),
                                             timeout=harness.PATIENCE).ready)
            with self.assertRaises(grpc.RpcError) as refused:
                stub.ServerMetadata(pb.ServerMetadataRequest(), timeout=harness.PATIENCE)
            self.assertEqual(grpc.StatusCode.UNAUTHENTICATED, refused.exception.code())
            for method in ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                           "/gpupool.v1.JobService/None", "/none"):
                call = channel.unary_unary(method)
                with self.assertRaises(grpc.RpcError) as refused:
                    call(b"", timeout=harness.PATIENCE)
                self.assertEqual(grpc.StatusCode.UNAUTHENTICATED,
                                 refused.exception.code(), method)
            health = channel.unary_unary("/grpc.health.v1.Health/Check")
            self.assertIn(b"\x08\x01", health(b"", timeout=harness.PATIENCE))

    def test_expired_revoked_and_malformed_tokens_are_refused(self):
        file = self.create("viewer", "--expires", "2s")
        harness.wait_until(lambda: self.call(
            "JobService/ListJobs", {}, file.read_text().strip())[0] == 401,
            what="the token to expire")
        self.assertIn("expired at", self.cli(file, "jobs", code=DENIED))
        file = self.create("viewer")
        self.cli(file, "jobs")
        tokens = json.loads(self.cli(self.admin, "tokens", "list", "-o", "json"))["tokens"]
        self.assertTrue(tokens[-1]["last_use_time"])
        self.cli(self.admin, "tokens", "revoke", tokens[-1]["id"])
        self.assertIn("was revoked", self.cli(file, "jobs", code=DENIED))
        for secret in ("gpk_short", "gpk_" + "A" * 43, "gpt_" + "A" * 43, "x"):
            file.write_text(secret)
            self.assertIn("does not know this token", self.cli(file, "jobs", code=DENIED))
            self.assertEqual(401, self.call("JobService/ListJobs", {}, secret)[0])

    def test_tokens_outlive_kill_and_restart(self):
        file = self.create("user")
        revoked = self.create("user")
        tokens = json.loads(self.cli(self.admin, "tokens", "list", "-o", "json"))["tokens"]
        self.cli(self.admin, "tokens", "revoke", tokens[-1]["id"])
        first = self.admin.read_text()
        self.server.kill()
        self.server.start()
        self.assertEqual(first, self.admin.read_text())
        self.cli(self.admin, "tokens", "list")
        self.cli(file, "jobs")
        self.cli(revoked, "jobs", code=DENIED)

    def test_a_tenant_sees_and_stops_only_its_own_jobs(self):
        mia, other = self.create("user", tenant="a"), self.create("user", tenant="b")
        self.cli(mia, "datasets", "upload", "digits", harness.DIGITS)
        path = self.server.state / "job.yaml"
        path.write_text(harness.digits_job(steps=1_000_000))
        job = json.loads(self.cli(mia, "submit", path, "-o", "json"))
        self.assertEqual("a", job["spec"]["tenant"])
        job_id = job["id"]
        for verb in ("get", "cancel", "hold", "why", "watch", "logs"):
            with self.subTest(verb=verb):
                said = self.cli(other, verb, job_id, code=NOT_FOUND)
                none = self.cli(other, verb, "123456", code=NOT_FOUND)
                self.assertEqual(none, said.replace(f"job {job_id}", "job 123456"))
        self.assertEqual([], json.loads(self.cli(other, "jobs", "-o", "json"))["jobs"])
        code, body, _ = self.call("JobService/GetJob", {"id": job_id},
                                  other.read_text().strip())
        self.assertEqual(404, code, body)
        path.write_text(harness.digits_job(steps=10) + "tenant: a\n")
        self.cli(other, "submit", path, code=DENIED)
        self.assertEqual(1, len(json.loads(self.cli(
            self.create("operator"), "jobs", "-o", "json"))["jobs"]))
        self.cli(mia, "cancel", job_id)

    def test_the_client_keeps_a_token_from_a_plain_network(self):
        environment = dict(os.environ, GPUPOOL_TOKEN="gpk_x")
        done = subprocess.run(
            [harness.BIN / "gpupool", "--address", "pool.example.org:8001", "jobs"],
            env=environment, capture_output=True, text=True, timeout=harness.PATIENCE)
        self.assertEqual(2, done.returncode, done.stderr)
        self.assertIn("in the clear", done.stderr)

    def call_by_context(self, *arguments, code=0, **variables):
        """Runs gpupool without --address, and returns its output and messages."""
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("GPUPOOL_")}
        done = subprocess.run(
            [harness.BIN / "gpupool", *map(str, arguments)], capture_output=True,
            text=True, env=dict(environment, **variables), timeout=harness.PATIENCE)
        self.assertEqual(code, done.returncode, done.stderr)
        return done.stdout, done.stderr

    def test_a_context_has_the_server_and_the_file_of_the_token(self):
        config = self.server.state / "config"
        call = functools.partial(self.call_by_context, XDG_CONFIG_HOME=str(config))
        viewer = self.create("viewer")
        for name, file in (("admin", self.admin), ("viewer", viewer)):
            call("context", "add", name, "--address", self.server.address,
                 "--token-file", os.path.relpath(file))
        kept = config / "gpupool/contexts.yaml"
        self.assertEqual(0o700, stat.S_IMODE(kept.parent.stat().st_mode))
        self.assertEqual(0o600, stat.S_IMODE(kept.stat().st_mode))
        self.assertIn(str(viewer), kept.read_text())
        self.assertNotIn("gpk_", kept.read_text())
        call("--context", "admin", "tokens", "list")
        call("context", "use", "viewer")
        call("jobs")
        call("tokens", "list", code=DENIED)
        call("tokens", "list", GPUPOOL_CONTEXT="admin")
        # The context in use does not give its token to another address, and one that
        # is named on the command line takes none from the environment.
        call("jobs", code=DENIED, GPUPOOL_ADDRESS=self.server.address)
        call("--context", "viewer", "tokens", "list", code=DENIED,
             GPUPOOL_TOKEN_FILE=str(self.admin))
        call("tokens", "list", GPUPOOL_TOKEN_FILE=str(self.admin))
        _, said = call("--context", "viewr", "jobs", code=NOT_FOUND)
        self.assertIn("did you mean 'viewer'? (known: admin, viewer)", said)

    def test_an_operator_stops_the_server(self):
        self.cli(self.create("user"), "admin", "drain", "--stop", code=DENIED)
        self.cli(self.create("operator"), "admin", "drain", "--stop")
        self.assertEqual(0, self.server.process.wait(harness.PATIENCE))


class NoTokens(harness.TestCase):
    def test_by_default_the_servers_user_needs_no_token(self):
        server = self.start("--devices", "cpu:1")
        server.cli("jobs")
        server.cli("tokens", "list")
        self.assertFalse((server.state / "admin-token").exists())
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(0, server.process.wait(harness.PATIENCE))


if __name__ == "__main__":
    harness.main()
