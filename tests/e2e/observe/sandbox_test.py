#!/usr/bin/env python3
"""The sandbox of real workers: every one that reads files of users is shut in, and
jobs on one and on several devices, rehearsals and served models go on inside."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402

WORKERS = {"cpu:0", "cpu:1", "meta", "rehearsal"}


class Sandbox(harness.TestCase):
    def worker_log(self, server, device):
        path = server.state / "workers" / device.replace(":", "-") / "log"
        return path.read_text() if path.exists() else ""

    def pids(self, server):
        """Returns the process of each worker, all of which have an engine."""
        found = {}
        for device in WORKERS:
            line = harness.wait_until(
                lambda device=device: next(
                    (line for line in self.worker_log(server, device).splitlines()
                     if "worker starts" in line), None), what=f"the worker of {device}")
            found[device] = int(line.split("pid=")[1].split()[0])
        return found

    def status(self, pid):
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
        return dict(line.split(":\t", 1) for line in lines if ":\t" in line)

    def test_every_worker_is_shut_in_and_works(self):
        server = self.start("--devices", "cpu:2")
        for device, pid in self.pids(server).items():
            log = self.worker_log(server, device)
            if "lacks a layer: calls" in log or "lacks a layer: all" in log:
                self.skipTest("this kernel or this build has no filter of calls")
            self.assertIn("sandbox layers=privileges,", log)
            # Every thread, those of the engine included.
            for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
                status = self.status(f"{pid}/task/{thread.name}")
                self.assertEqual("1", status["NoNewPrivs"], (device, status))
                self.assertEqual("2", status["Seccomp"], (device, status))
        self.assertEqual("0", self.status(server.process.pid)["Seccomp"])
        server.upload_digits()
        path = server.state / "pair.yaml"
        path.write_text(harness.digits_job(steps=20, publish="true") + "\ndevices: 2\n")
        job = server.wait_job(int(server.json("submit", path)["id"]))
        self.assertEqual("SUCCEEDED", job["state"], job)

    def test_without_the_sandbox_nothing_is_taken(self):
        server = self.start("--devices", "cpu:2", "--sandbox", "off")
        inherited = self.status("self")["Seccomp"]
        for device, pid in self.pids(server).items():
            self.assertEqual(inherited, self.status(pid)["Seccomp"], device)
            self.assertIn("no sandbox", self.worker_log(server, device))


if __name__ == "__main__":
    harness.main()
