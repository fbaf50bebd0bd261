#!/usr/bin/env python3
"""The audit log of a server: who did what, after kills and changes of its files too."""
import http.client
import json
import pathlib
import stat
import sys
import threading
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402

DAMAGED, DENIED, NOT_FOUND = 1, 4, 3  # exit codes of gpupool


class Audit(harness.TestCase):
    def folder(self, server):
        return server.state / "audit"

    def verify(self, server, code=0):
        return server.cli("admin", "audit", "verify", server.state, code=code)

    def records(self, server):
        """Returns the whole records in the files."""
        return [json.loads(line) for file in sorted(self.folder(server).iterdir())
                for line in file.read_text().split("\n")[:-1]]

    def wait_for(self, server, **wanted):
        """Returns the first record that has these values, once it is written."""
        def found():
            return next((r for r in self.records(server)
                         if all(r.get(key) == value for key, value in wanted.items())), None)
        return harness.wait_until(found, what=f"a record with {wanted}")

    def http(self, server, method, message, **headers):
        """Returns the status of a call over HTTP."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{server.ports['http_port']}/api/gpupool.v1.{method}",
            headers={"Content-Type": "application/json", **headers},
            data=json.dumps(message).encode())
        try:
            with urllib.request.urlopen(request, timeout=harness.PATIENCE) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            with error:
                return error.code

    def test_calls_of_tokens_over_both_ports_are_noted(self):
        server = self.start("--devices", "cpu:1", "--auth", "tokens")
        admin = server.state / "admin-token"
        secret = server.cli("--token-file", admin, "tokens", "create", "--role", "user",
                            "--tenant", "lab", "--name", "mia").strip()
        mia = server.state / "mia"
        mia.write_text(secret + "\n")
        made = self.wait_for(server, method="/gpupool.v1.AuthService/CreateToken")
        self.assertEqual(("token", "first-admin", "admin", "OK"),
                         tuple(made[k] for k in ("identity", "name", "role", "outcome")))
        self.assertIn("name=mia", made["object"])
        self.assertRegex(made["peer"], r"^ipv4:127\.0\.0\.1:\d+$")
        # A change over HTTP, with the address of its client and its id.
        bearer = {"Authorization": f"Bearer {secret}", "X-Request-Id": "try-1"}
        self.assertEqual(404, self.http(server, "JobService/CancelJob", {"id": 999}, **bearer))
        cancelled = self.wait_for(server, method="/gpupool.v1.JobService/CancelJob")
        self.assertEqual(("mia", "lab", "user", "id=999", "try-1", "NOT_FOUND"),
                         tuple(cancelled[k] for k in ("name", "tenant", "role", "object",
                                                      "request_id", "outcome")))
        self.assertRegex(cancelled["peer"], r"^http:127\.0\.0\.1")
        # Denied calls, with a token and without.
        server.cli("--token-file", mia, "admin", "drain", code=DENIED)
        denied = self.wait_for(server, event="denied", name="mia")
        self.assertEqual("/gpupool.v1.AdminService/Drain", denied["method"])
        self.assertEqual(401, self.http(server, "JobService/ListJobs", {}))
        unknown = self.wait_for(server, event="denied", identity="unknown")
        self.assertRegex(unknown["peer"], r"^http:127\.0\.0\.1")
        # Reads are not noted, and no secret is.
        server.cli("--token-file", mia, "jobs")
        text = "".join(f.read_text() for f in self.folder(server).iterdir())
        self.assertNotIn("gpk_", text)
        self.assertEqual(["denied"], [r["event"] for r in self.records(server)
                                      if r.get("method", "").endswith("ListJobs")])

    def test_only_the_owner_may_read_it_and_it_is_off_on_demand(self):
        server = self.start("--devices", "cpu:1")
        for path in self.folder(server).iterdir():
            self.assertEqual(0o600, stat.S_IMODE(path.stat().st_mode))
        self.assertEqual(0o700, stat.S_IMODE(self.folder(server).stat().st_mode))
        silent = self.start("--devices", "cpu:1", "--audit", "off")
        self.assertFalse(self.folder(silent).exists())
        self.verify(silent, code=NOT_FOUND)

    def test_files_are_private_in_a_state_folder_that_others_may_enter(self):
        server = self.start("--devices", "cpu:1")
        self.assertEqual(0, server.terminate())
        server.state.chmod(0o755)
        database, workers = server.state / "gpupool.db", server.state / "workers"
        database.chmod(0o644)
        workers.chmod(0o755)
        server.start()
        self.assertIn("the modes are mended", server.log())
        for path in (database, workers, server.state / "gpupool.db-wal"):
            self.assertEqual(0, stat.S_IMODE(path.stat().st_mode) & 0o077, path)

    def test_a_kill_in_the_middle_leaves_a_whole_chain(self):
        server = self.start("--devices", "cpu:1", "--audit-file-bytes", "64KiB",
                            "--audit-files", "1000")
        self.wait_for(server, event="start")
        many = 300
        reached = threading.Event()

        def call():
            done = 0
            while True:
                try:
                    self.http(server, "JobService/CancelJob", {"id": 999})
                except (OSError, http.client.HTTPException):
                    return
                done += 1
                if done == many:
                    reached.set()
        callers = [threading.Thread(target=call) for _ in range(2)]
        for caller in callers:
            caller.start()
        self.assertTrue(reached.wait(harness.PATIENCE))
        server.kill()
        for caller in callers:
            caller.join(harness.PATIENCE)
        self.verify(server)
        server.start()
        self.verify(server)
        records = self.records(server)
        self.assertEqual(list(range(1, len(records) + 1)), [r["sequence"] for r in records])
        self.assertGreater(len(list(self.folder(server).glob("audit-*"))), 1)
        starts = [i for i, r in enumerate(records) if r["event"] == "start"]
        self.assertEqual(2, len(starts))
        self.assertNotIn("stop", [r["event"] for r in records])
        self.assertGreaterEqual(starts[1], many)

    def test_a_torn_line_is_mended_and_a_changed_record_found(self):
        server = self.start("--devices", "cpu:1")
        for _ in range(3):
            self.assertEqual(404, self.http(server, "JobService/CancelJob", {"id": 999}))
        self.assertEqual(0, server.terminate())
        self.assertEqual("stop", self.records(server)[-1]["event"])
        newest = max(self.folder(server).iterdir())
        with open(newest, "a") as file:
            file.write('{"sequence":')
        server.start()
        self.assertIn("the audit log was torn", server.log())
        self.wait_for(server, event="mended")
        self.verify(server)
        self.assertEqual(0, server.terminate())
        text = newest.read_text()
        newest.write_text(text.replace("id=999", "id=998", 1))
        line = next(i for i, old in enumerate(text.splitlines(), 1) if "id=999" in old)
        self.assertIn(f"{newest}:{line}: the record was changed",
                      self.verify(server, code=DAMAGED))
        # The server follows the last record, whatever is wrong before it.
        server.start()


if __name__ == "__main__":
    harness.main()
