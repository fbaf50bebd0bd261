#!/usr/bin/env python3
"""The Unix socket of a server: its user needs no token there, and other users of
the machine are refused at the socket and at the ports."""
import errno
import json
import os
import pathlib
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402

NOBODY = 65534
DENIED, UNREACHABLE = 4, 5  # exit codes of gpupool
# What nobody could do to a server over its port: read, stop jobs, delete
# data, stop the server, see the tokens.
ATTACKS = (("jobs",), ("cancel", "1"), ("datasets", "delete", "digits"),
           ("admin", "drain", "--stop"), ("tokens", "list"))


class SocketCase(harness.TestCase):
    def start_with_tokens(self, *arguments):
        self.server = self.start("--devices", "cpu:1", "--auth", "tokens", *arguments)
        self.socket = self.server.state / "gpupoold.sock"

    def run_cli(self, *arguments, code=0, **options):
        """Runs gpupool without an address and a token of this test's environment."""
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith("GPUPOOL_")}
        options.setdefault("cwd", harness.ROOT)
        command = [str(options.pop("program", harness.BIN / "gpupool")),
                   *map(str, arguments)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True,
                              timeout=harness.PATIENCE, **options)
        if done.returncode != code:
            raise harness.CommandFailed(command, done)
        return done.stdout if code == 0 else done.stderr


class OwnUser(SocketCase):
    def test_the_socket_is_private_and_needs_no_token(self):
        self.start_with_tokens()
        self.assertEqual(0o600, stat.S_IMODE(self.socket.stat().st_mode))
        self.assertIn(f"socket={self.socket}", self.server.log())
        address = f"unix:{self.socket}"
        self.run_cli("--address", address, "datasets", "upload", "digits", harness.DIGITS)
        self.run_cli("--address", address, "tokens", "list")
        self.assertIn("wants a token", self.server.cli("jobs", code=DENIED))

    def test_a_token_counts_at_the_socket(self):
        self.start_with_tokens()
        address = f"unix:{self.socket}"
        token = self.server.state / "token"
        token.write_text(self.run_cli("--address", address, "tokens", "create",
                                      "--role", "user", "--tenant", "lab"))
        self.run_cli("--address", address, "--token-file", token, "jobs")
        self.run_cli("--address", address, "--token-file", token, "tokens", "list",
                     code=DENIED)

    def test_without_an_address_the_socket_of_the_folder_is_used(self):
        folder = tempfile.mkdtemp(prefix="gpupool-folder-")
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.start_with_tokens()
        os.symlink(self.server.state, pathlib.Path(folder, "gpupool-state"))
        devices = json.loads(self.run_cli("devices", "-o", "json", cwd=folder))["devices"]
        self.assertEqual("cpu:0", devices[0]["name"])
        self.run_cli("admin", "drain", "--stop", cwd=folder)
        self.assertEqual(0, self.server.process.wait(harness.PATIENCE))
        self.assertFalse(self.socket.exists())

    def test_a_killed_server_leaves_a_socket_that_the_next_replaces(self):
        self.start_with_tokens()
        self.server.kill()
        self.assertTrue(self.socket.exists())
        self.server.start()
        self.run_cli("--address", f"unix:{self.socket}", "devices")

    def test_the_socket_of_a_live_server_is_refused_in_words(self):
        self.start_with_tokens()
        with self.assertRaises(AssertionError) as refused:
            self.start("--devices", "cpu:1", "--socket", str(self.socket))
        self.assertIn(f"another server listens at the socket {self.socket}",
                      str(refused.exception))
        self.run_cli("--address", f"unix:{self.socket}", "devices")

    def test_none_means_none(self):
        self.start_with_tokens("--socket", "none")
        self.assertFalse(self.socket.exists())

    def test_a_path_that_is_too_long_is_refused_by_both_ends(self):
        path = "/tmp/" + "x" * 103
        with self.assertRaises(AssertionError) as refused:
            self.start("--devices", "cpu:1", "--socket", path)
        self.assertIn("at most 107 are possible", str(refused.exception))
        self.assertIn("at most 107 are possible",
                      self.run_cli("--address", f"unix:{path}", "jobs", code=2))


@unittest.skipIf(os.geteuid() != 0, "only root can call as nobody")
class Nobody(SocketCase):
    def setUp(self):
        self.start_with_tokens()
        self.run_cli("--address", f"unix:{self.socket}", "datasets", "upload", "digits",
                     harness.DIGITS)
        # The folder of the build may be closed to nobody.
        folder = tempfile.mkdtemp(prefix="gpupool-nobody-")
        self.addCleanup(shutil.rmtree, folder)
        os.chmod(folder, 0o755)
        self.program = pathlib.Path(shutil.copy(harness.BIN / "gpupool", folder))
        self.program.chmod(0o755)

    def as_nobody(self, *arguments, code):
        return self.run_cli(*arguments, code=code, program=self.program, cwd="/",
                            user=NOBODY, group=NOBODY, extra_groups=[])

    def test_nobody_can_do_nothing_over_loopback(self):
        for attack in ATTACKS:
            with self.subTest(attack=attack):
                said = self.as_nobody("--address", self.server.address, *attack,
                                      code=DENIED)
                self.assertIn("wants a token", said)
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(
                f"http://127.0.0.1:{self.server.ports['http_port']}/v2",
                timeout=harness.PATIENCE)
        with refused.exception:
            self.assertEqual(401, refused.exception.code)
        self.assertIsNone(self.server.process.poll())
        self.assertIn("digits", self.run_cli("--address", f"unix:{self.socket}",
                                             "datasets", "list"))

    def test_nobody_cannot_open_the_socket(self):
        # The mode of the socket must be enough, whatever the folder's mode is.
        self.server.state.chmod(0o755)
        for attack in ATTACKS:
            with self.subTest(attack=attack):
                said = self.as_nobody("--address", f"unix:{self.socket}", *attack,
                                      code=UNREACHABLE)
                self.assertIn("only the server's user and root", said)
        pid = os.fork()
        if pid == 0:  # connects without gpupool
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            result = socket.socket(socket.AF_UNIX).connect_ex(str(self.socket))
            os._exit(result)
        self.assertEqual(errno.EACCES, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))

    def test_nobody_cannot_read_the_admins_token(self):
        self.server.state.chmod(0o755)
        self.as_nobody("--address", self.server.address, "--token-file",
                       self.server.state / "admin-token", "jobs", code=2)


if __name__ == "__main__":
    harness.main()
