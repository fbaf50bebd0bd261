#!/usr/bin/env python3
"""Devices that are reserved for a tenant, through the real processes: jobs of
others leave and come back without a trace in what they compute."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402

LONG = 2000000


class Reservations(harness.TestCase):
    def start_server(self, *flags):
        """Starts a server with two devices, each with room for one job."""
        server = self.start("--devices", "cpu:2", *flags)
        server.upload_digits()
        path = server.state / "probe.yaml"
        path.write_text(harness.digits_job("probe"))
        need = int(server.json("plan", path)["plan"]["training"]["peak"])
        for device in server.devices():
            fraction = 1.5 * need / int(device["limit_bytes"])
            server.cli("devices", "fraction", device["name"], f"{fraction:.9f}")
        return server

    def submit(self, server, name, tenant, steps=LONG):
        return server.submit(harness.digits_job(name, steps=steps, checkpoint_every_steps=0)
                             + f"tenant: {tenant}\n")

    def manifest_files(self, server, job):
        manifest = server.manifest(job["last_checkpoint"]["manifest_sha256"])
        return {f["role"]: f["sha256"] for f in manifest["files"]}

    def test_a_job_leaves_for_a_reservation_and_resumes_bit_for_bit(self):
        hold = self.hold()
        server = self.start_server()
        calm = server.wait_job(self.submit(server, "calm", "shop", steps=3000))
        hold.at(200)
        moved = self.submit(server, "moved", "shop", steps=3000)
        hold.wait()
        night = server.json("reserve", "create", "--tenant", "lab", "--devices", 2,
                            "--for", "4h", "--name", "night")
        self.assertEqual(["cpu:0", "cpu:1"], night["devices"])
        hold.release()
        job = server.wait_job(moved, ("QUEUED",))
        harness.wait_until(lambda: "is reserved for lab until"
                           in server.job(moved).get("waiting_reason", ""), 30, "the reason")
        self.assertIn("is reserved for lab until", server.cli("logs", moved))
        self.assertEqual(1, int(job["attempt"]))
        why = server.json("why", moved)
        self.assertTrue(any("reservation 'night' for lab ends, in 3h" in c
                            for c in why["changes"]), why)
        metrics = server.metrics()
        self.assertIn('gpupool_preemptions_total{reason="reservation"} 1', metrics)
        self.assertIn("gpupool_reserved_devices 2", metrics)
        # The jobs of the tenant and of its parts run there.
        for tenant in ("lab", "lab.interns"):
            own = server.wait_job(self.submit(server, "own", tenant, steps=50))
            self.assertEqual("SUCCEEDED", own["state"], own)

        # A daemon that is killed in the window knows it after its restart.
        server.kill()
        server.start()
        own = server.wait_job(self.submit(server, "own", "lab", steps=50))
        self.assertEqual("SUCCEEDED", own["state"], own)
        self.assertEqual("QUEUED", server.job(moved)["state"])
        self.assertIn("night", server.cli("reserve", "list"))

        server.cli("reserve", "cancel", "night")
        done = server.wait_job(moved)
        self.assertEqual("SUCCEEDED", done["state"], done)
        self.assertEqual(2, int(done["attempt"]))
        self.assertEqual(self.manifest_files(server, calm),
                         self.manifest_files(server, done))
        self.assertNotIn("night", server.cli("reserve", "list"))
        self.assertIn("cancelled", server.cli("reserve", "list", "--all"))
        self.assertIn("reservations", server.cli("admin", "check"))

    def test_one_to_come_begins_and_ends_by_itself(self):
        server = self.start_server()
        jobs = [self.submit(server, f"job{i}", "shop") for i in range(2)]
        for job in jobs:
            server.wait_step(job, 10)
        device = server.job(jobs[0])["device"]
        made = server.json("reserve", "create", "--tenant", "lab", "--device", device,
                           "--from", "+2s", "--for", "4h", "--request-id", "one")
        again = server.json("reserve", "create", "--tenant", "lab", "--device", device,
                            "--for", "4h", "--request-id", "one")
        self.assertEqual(made["id"], again["id"])
        server.wait_job(jobs[0], ("QUEUED",))
        own = server.wait_job(self.submit(server, "own", "lab", steps=50))
        self.assertEqual((device, "SUCCEEDED"), (own["device"], own["state"]))
        self.assertIn(f"{device} is reserved for lab until", server.cli("devices"))
        self.assertEqual("RUNNING", server.job(jobs[1])["state"])
        server.cli("reserve", "cancel", made["id"])
        resumed = server.wait_job(jobs[0], ("RUNNING",))
        self.assertEqual((device, 2), (resumed["device"], int(resumed["attempt"])))
        # The end of the window frees the device, too.
        server.cli("reserve", "create", "--tenant", "lab", "--device", device,
                   "--for", "2s")
        harness.wait_until(lambda: int(server.job(jobs[0])["attempt"]) == 3, 60,
                           "another attempt")
        self.assertEqual([], server.json("reserve", "list").get("reservations", []))
        for job in jobs:
            server.cli("cancel", job)

    def test_errors_say_what_to_do(self):
        server = self.start_server("--tenants", "shop:weight=2;lab:weight=1")
        create = ("reserve", "create", "--tenant", "lab", "--for", "1h")
        server.cli(*create, "--device", "cpu:0", "--name", "night")
        for words, code, arguments in (
                ("devices is 3; of one kind there are 2 cpu", 2, (*create, "--devices", 3)),
                ("which has passed", 2,
                 (*create, "--devices", 1, "--from", "2020-01-01T00:00:00Z")),
                ("not a future time", 2, (*create, "--devices", 1, "--from", "soon")),
                ("duration is 400d; it must be at least 1s and at most 366d", 2,
                 (*create[:-1], "400d", "--devices", 1)),
                ("no device \"cpu:9\"", 3, (*create, "--device", "cpu:9")),
                ("cpu:0 is reserved as 'night' for lab", 6, (*create, "--device", "cpu:0")),
                ("free are cpu:1", 6, (*create, "--devices", 2)),
                ("is called \"night\"", 6, (*create, "--devices", 1, "--name", "night")),
                ("no reservation \"day\"", 3, ("reserve", "cancel", "day"))):
            self.assertIn(words, server.cli(*arguments, code=code))


if __name__ == "__main__":
    harness.main()
