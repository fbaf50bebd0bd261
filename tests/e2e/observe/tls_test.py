#!/usr/bin/env python3
"""A server with TLS: what clients with and without certificates get from it."""
import os
import pathlib
import shutil
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402


def gpupool(*arguments):
    """Runs a verb that asks no server."""
    done = subprocess.run([harness.BIN / "gpupool", *map(str, arguments)],
                          capture_output=True, text=True, timeout=harness.PATIENCE)
    assert done.returncode == 0, done.stderr


class Tls(harness.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpupool-tls-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.pki = self.authority("pki")
        self.live = self.folder / "live"  # the files that the server reads
        self.live.mkdir()
        self.replace(self.pki)

    def authority(self, name):
        """Makes an authority with a server and the client mia."""
        gpupool("tls", "init", self.folder / name)
        gpupool("tls", "client", self.folder / name, "mia")
        return self.folder / name

    def replace(self, pki):
        """Gives the server the files of an authority, each by a rename."""
        for name in ("server.key", "server.pem", "ca.pem"):
            shutil.copy(pki / name, self.live / f"{name}.new")  # with its mode
            os.rename(self.live / f"{name}.new", self.live / name)

    def flags(self, *names):
        files = {"--tls-certificate": "server.pem", "--tls-key": "server.key",
                 "--tls-client-ca": "ca.pem"}
        return [word for flag, name in files.items() if flag in names or not names
                for word in (flag, str(self.live / name))]

    def mia(self, pki):
        return ("--ca", pki / "ca.pem", "--client-cert", pki / "mia.pem",
                "--client-key", pki / "mia.key")

    def https(self, server, path, own=True):
        context = ssl.create_default_context(cafile=self.pki / "ca.pem")
        if own:
            context.load_cert_chain(self.pki / "mia.pem", self.pki / "mia.key")
        return urllib.request.urlopen(
            f"https://127.0.0.1:{server.ports['http_port']}{path}",
            context=context, timeout=harness.PATIENCE)

    def test_a_job_is_trained_and_served_over_tls(self):
        server = self.start("--devices", "cpu:1", *self.flags())
        mia = self.mia(self.pki)
        server.cli(*mia, "datasets", "upload", "digits", harness.DIGITS)
        job = self.folder / "job.yaml"
        job.write_text(harness.digits_job(steps=20, publish="true"))
        server.cli(*mia, "run", job)
        with self.https(server, "/v2/health/ready") as answer:
            self.assertEqual(200, answer.status)
        with self.https(server, "/") as page:
            self.assertIn("text/html", page.headers["Content-Type"])

    def test_python_calls_with_the_same_files(self):
        import grpc
        pb, services = harness.stubs()("inference.grpc_service")
        server = self.start("--devices", "cpu:1", *self.flags())
        ca, key, certificate = ((self.pki / name).read_bytes()
                                for name in ("ca.pem", "mia.key", "mia.pem"))
        with grpc.secure_channel(server.address, grpc.ssl_channel_credentials(
                ca, key, certificate)) as channel:
            stub = services.GRPCInferenceServiceStub(channel)
            answer = stub.ServerLive(pb.ServerLiveRequest(), timeout=harness.PATIENCE)
            self.assertTrue(answer.live)

    def test_clients_that_lack_something_are_told_what(self):
        server = self.start("--devices", "cpu:1", *self.flags())
        stranger = self.authority("stranger")
        self.assertIn("with --ca or GPUPOOL_CA", server.cli("jobs", code=5))
        self.assertIn("--client-cert and --client-key",
                      server.cli("--ca", self.pki / "ca.pem", "jobs", code=5))
        self.assertIn("signed by no authority in",
                      server.cli("--ca", stranger / "ca.pem", "jobs", code=5))
        foreign = ("--ca", self.pki / "ca.pem", "--client-cert", stranger / "mia.pem",
                   "--client-key", stranger / "mia.key")
        self.assertIn("does not know the authority", server.cli(*foreign, "jobs", code=5))
        with self.assertRaises((urllib.error.URLError, OSError)):
            self.https(server, "/v2/health/live", own=False)

    def test_a_plain_server_is_told_from_one_with_tls(self):
        server = self.start("--devices", "cpu:1")
        self.assertIn("it speaks no TLS",
                      server.cli("--ca", self.pki / "ca.pem", "jobs", code=5))

    def test_the_certificate_holds_for_its_hosts_only(self):
        server = self.start("--devices", "cpu:1", "--listen", "0.0.0.0", *self.flags())
        done = subprocess.run(
            [harness.BIN / "gpupool", "--address",
             f"127.0.0.2:{server.ports['grpc_port']}",
             *map(str, self.mia(self.pki)), "jobs"],
            capture_output=True, text=True, timeout=harness.PATIENCE)
        self.assertEqual(5, done.returncode)
        self.assertIn("is not for this host", done.stderr)
        self.assertNotIn("without TLS", server.log())

    def test_new_files_are_used_without_a_restart(self):
        server = self.start("--devices", "cpu:1", *self.flags())
        server.cli(*self.mia(self.pki), "jobs")
        after = self.authority("next")
        self.replace(after)

        def taken():
            try:
                return server.cli(*self.mia(after), "devices")
            except harness.CommandFailed:
                return None
        harness.wait_until(taken, what="the new certificate to be used")
        server.cli(*self.mia(self.pki), "jobs", code=5)

    def test_without_authorities_of_clients_any_client_may_call(self):
        server = self.start("--devices", "cpu:1",
                            *self.flags("--tls-certificate", "--tls-key"))
        server.cli("--ca", self.pki / "ca.pem", "jobs")

    def test_a_key_that_others_may_read_keeps_the_server_from_starting(self):
        (self.live / "server.key").chmod(0o640)
        state = self.folder / "state"
        done = subprocess.run(
            [harness.BIN / "gpupoold", "--state-dir", state, *self.flags()],
            capture_output=True, text=True, timeout=harness.PATIENCE)
        self.assertEqual(69, done.returncode)
        self.assertIn(f"chmod 600 {self.live / 'server.key'}", done.stderr)
        self.assertFalse(state.exists())


if __name__ == "__main__":
    harness.main()
