#!/usr/bin/env python3
"""gpupoold --check and --backup while a server is running."""
import pathlib
import shutil
import sqlite3
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402


def daemon(server, *arguments):
    return subprocess.run([harness.BIN / "gpupoold", "--state-dir", server.state,
                           *map(str, arguments)], capture_output=True, text=True,
                          timeout=harness.PATIENCE)


class Backup(harness.TestCase):
    def assert_brings_back(self, server, copy, job):
        """The job in the copy continues, although it was cancelled after the copy."""
        server.cli("cancel", job)
        server.wait_job(job)
        server.stop()
        shutil.move(copy, server.state / "gpupool.db")
        for suffix in ("-wal", "-shm"):
            (server.state / f"gpupool.db{suffix}").unlink(missing_ok=True)
        server.start()
        self.assertNotEqual("CANCELLED", server.job(job)["state"], "the job of the backup")
        server.cli("cancel", job)
        server.wait_job(job)

    def test_a_backup_made_while_jobs_run_is_sound_and_can_be_restored(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        job = server.submit(harness.digits_job(steps=10**6))
        server.wait_step(job, 50)
        check = daemon(server, "--check")
        self.assertEqual(0, check.returncode, check.stdout + check.stderr)
        self.assertIn("nothing is wrong", check.stdout)
        copy = server.state / "copy.db"
        self.assertEqual(0, daemon(server, "--backup", copy).returncode)
        again = daemon(server, "--backup", copy)
        self.assertEqual(69, again.returncode)
        self.assertIn("exists", again.stderr)

        self.assert_brings_back(server, copy, job)

    def test_the_api_backs_up_and_checks_while_jobs_run(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        job = server.submit(harness.digits_job(steps=10**6))
        server.wait_step(job, 50)
        report = server.json("admin", "check")
        self.assertNotIn("problems", {k: v for k, v in report.items() if v})
        self.assertEqual("1", str(report["rows"]["jobs"]))
        copy = server.state / "api copy.db"
        server.cli("admin", "backup", copy)
        self.assertIn("exists", server.cli("admin", "backup", copy, code=6))
        self.assertIn("/nowhere/copy.db",
                      server.cli("admin", "backup", "/nowhere/copy.db", code=3))
        if pathlib.Path("/dev/full").exists():
            (server.state / "full.db.part").symlink_to("/dev/full")
            server.cli("admin", "backup", server.state / "full.db", code=7)
            self.assertFalse((server.state / "full.db").exists())

        self.assert_brings_back(server, copy, job)

    def test_the_api_finds_damage(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        with sqlite3.connect(server.state / "gpupool.db") as database:
            database.execute("UPDATE datasets SET checksum = 1")
        database.close()
        self.assertIn("row 1 of datasets: its checksum differs",
                      server.cli("admin", "check", code=1))

    def test_damage_is_found_and_a_damaged_database_is_not_served(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        self.assertEqual(0, server.terminate())
        path = server.state / "gpupool.db"
        whole = path.read_bytes()
        path.write_bytes(whole[:4096] + b"Z" * 512 + whole[4608:])
        check = daemon(server, "--check")
        self.assertEqual(65, check.returncode, check.stdout + check.stderr)
        start = daemon(server, "--devices", "cpu:1", "--grpc-port", 0, "--http-port", 0,
                       "--metrics-port", 0)
        self.assertEqual(69, start.returncode)
        self.assertIn("damaged", start.stderr)

    def test_a_lost_database_is_not_begun_anew(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        self.assertEqual(0, server.terminate())
        path = server.state / "gpupool.db"
        for suffix in ("", "-wal", "-shm"):
            pathlib.Path(f"{path}{suffix}").unlink(missing_ok=True)
        ports = ("--devices", "cpu:1", "--grpc-port", 0, "--http-port", 0,
                 "--metrics-port", 0)
        start = daemon(server, *ports)
        self.assertEqual(69, start.returncode, start.stderr)
        self.assertIn("gpupool.db-used exists", start.stderr)
        self.assertFalse(path.exists())
        sqlite3.connect(path).executescript("CREATE TABLE other(id); DROP TABLE other;")
        start = daemon(server, *ports)
        self.assertEqual(69, start.returncode, start.stderr)
        self.assertIn("is empty", start.stderr)
        path.unlink()
        pathlib.Path(f"{path}-used").unlink()
        (server.state / "blobs").rename(server.state / "old blobs")
        server.start()

    def test_without_database_it_says_so(self):
        server = harness.Server("/nowhere", [])
        for arguments in (("--check",), ("--backup", "/tmp/never.db")):
            done = daemon(server, *arguments)
            self.assertEqual(69, done.returncode)
            self.assertIn("there is no database /nowhere/gpupool.db", done.stderr)


if __name__ == "__main__":
    harness.main()
