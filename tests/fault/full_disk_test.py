#!/usr/bin/env python3
"""The state folder's disk is full: what runs goes on and ends on disk, what is
new is refused with the reason, and taken again once there is room."""
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
import harness  # noqa: E402

DISK_MIB, RESERVE_MIB = 192, 48


def mount_small_disk(folder):
    return subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", folder],
                          capture_output=True, text=True)


class FullDisk(harness.TestCase):
    def start_on_small_disk(self):
        folder = tempfile.mkdtemp(prefix="gpupool-disk-")
        self.addCleanup(os.rmdir, folder)
        mounted = mount_small_disk(folder)
        if mounted.returncode != 0:
            self.skipTest(f"this machine lets nobody mount a small disk: {mounted.stderr}")
        self.addCleanup(subprocess.run, ["umount", "-l", folder], check=True)
        state = pathlib.Path(folder) / "state"
        state.mkdir()
        server = harness.Server(state, ["--devices", "cpu:1", "--disk-reserve",
                                        f"{RESERVE_MIB}MiB"])
        self.addCleanup(server.stop)
        return server.start()

    def fill(self, server):
        """Fills the disk completely."""
        path = server.state / "filler"
        with open(path, "ab", buffering=0) as filler:
            block = b"x" * 4096
            try:
                while True:
                    filler.write(block)
            except OSError:
                return path

    def test_running_jobs_end_and_new_ones_are_refused_until_there_is_room(self):
        server = self.start_on_small_disk()
        server.upload_digits()
        job = server.submit(harness.digits_job(steps=2500, report_every_steps=5,
                                               max_attempts=1))
        server.wait_step(job, 50)
        filler = self.fill(server)
        path = server.state / "new.yaml"
        path_of_spec = pathlib.Path("/dev/shm") / f"gpupool-{os.getpid()}.yaml"
        path_of_spec.write_text(harness.digits_job(steps=5))
        self.addCleanup(path_of_spec.unlink)

        def refused():
            try:
                server.cli("submit", path_of_spec)
            except harness.CommandFailed as failed:
                self.assertIn("is full", failed.stderr)
                return failed.stderr
            return None
        text = harness.wait_until(refused, 60, "a job to be refused")
        self.assertIn(str(server.state), text)
        self.assertIn("bytes are free", text)
        self.assertIn("delete files there", text)
        self.assertIn("disk", server.cli("datasets", "upload", "more", harness.DIGITS, code=7))

        done = server.wait_job(job, seconds=120)
        # A checkpoint that finds no room interrupts the attempt, uncharged.
        self.assertEqual("SUCCEEDED", done["state"], done)
        self.assertIsNone(server.process.poll(), "the daemon lives")

        filler.unlink()

        def taken():
            try:
                return server.json("submit", path_of_spec)
            except harness.CommandFailed:
                return None
        again = harness.wait_until(taken, 30, "jobs to be taken again")
        self.assertEqual("SUCCEEDED", server.wait_job(again["id"])["state"])
        self.assertEqual(RESERVE_MIB << 20, (server.state / "gpupool.db-reserve").stat().st_size)
        self.assertFalse(path.exists())

    def test_a_daemon_killed_on_a_full_disk_starts_again(self):
        server = self.start_on_small_disk()
        server.upload_digits()
        job = server.submit(harness.digits_job(steps=100000, report_every_steps=5))
        server.wait_step(job, 50)
        server.kill()
        filler = self.fill(server)
        server.start()
        server.cli("cancel", job)
        self.assertEqual("CANCELLED", server.wait_job(job)["state"])
        server.kill()
        filler.unlink()
        server.start()
        self.assertEqual("CANCELLED", server.job(job)["state"])


if __name__ == "__main__":
    harness.main()
