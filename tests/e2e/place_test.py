#!/usr/bin/env python3
"""Where jobs and models run, through the real processes: devices by name and by
kind, jobs that share no device, and names that do not exist."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402

LONG = 2000000


class Places(harness.TestCase):
    def start_server(self):
        server = self.start("--devices", "cpu:2")
        server.upload_digits()
        return server

    def submit(self, server, name, device="", extra="", steps=LONG, **options):
        return server.submit(harness.digits_job(
            name, steps=steps, device=device, checkpoint_every_steps=0, **options) + extra)

    def leave_room_for_one(self, server):
        """Gives each device room for one job of this size."""
        path = server.state / "probe.yaml"
        path.write_text(harness.digits_job("probe"))
        need = int(server.json("plan", path)["plan"]["training"]["peak"])
        for device in server.devices():
            fraction = 1.5 * need / int(device["limit_bytes"])
            server.cli("devices", "fraction", device["name"], f"{fraction:.9f}")

    def runs_on(self, server, job, device):
        self.assertEqual(device, server.wait_job(job, ("RUNNING",))["device"])

    def wait_for_reason(self, server, job, text):
        harness.wait_until(lambda: text in server.job(job).get("waiting_reason", ""), 30,
                           f"job {job} to say {text!r}; it says "
                           + server.job(job).get("waiting_reason", ""))

    def version(self, server, model="digits"):
        return server.json("models", "get", model)["versions"][0]

    def wait_version(self, server, state, model="digits"):
        return harness.wait_until(
            lambda: self.version(server, model)["state"] == state
            and self.version(server, model), 60, f"{model} to be {state}")

    def restart(self, server):
        server.kill()
        server.start()

    def test_jobs_share_and_queue_for_the_device_they_name(self):
        server = self.start_server()
        first = self.submit(server, "first", "cpu:1")
        second = self.submit(server, "second", "cpu:1")
        for job in (first, second):
            self.runs_on(server, job, "cpu:1")
        self.assertRegex(server.cli("get", first), r"asks for: +cpu:1")
        for job in (first, second):
            server.cli("cancel", job)
            server.wait_job(job)

        self.leave_room_for_one(server)
        first = self.submit(server, "first", "cpu:1")
        self.runs_on(server, first, "cpu:1")
        waits = self.submit(server, "waits", "cpu:1")
        self.wait_for_reason(server, waits, "waits for cpu:1: it needs ")
        self.assertEqual(["cpu:1"],
                         [d["name"] for d in server.json("why", waits)["devices"]])
        self.runs_on(server, self.submit(server, "other", "cpu"), "cpu:0")
        self.restart(server)
        self.wait_for_reason(server, waits, "waits for cpu:1: it needs ")
        server.cli("cancel", first)
        self.runs_on(server, waits, "cpu:1")

    def test_an_array_puts_each_task_on_its_device(self):
        server = self.start_server()
        self.submit(server, "each", "cpu:${index}", 'array: {indices: "0-1"}\n', steps=30)

        def tasks():
            found = server.json("jobs", "--tasks").get("jobs", [])
            return {j["device"] for j in found if j["state"] == "SUCCEEDED"}
        harness.wait_until(lambda: tasks() == {"cpu:0", "cpu:1"}, 90, "both tasks")

    def test_an_exclusive_job_keeps_others_away_and_lets_them_in_afterwards(self):
        server = self.start_server()
        published = self.submit(server, "digits", "cpu:0", steps=30, publish="true")
        server.wait_job(published)
        self.wait_version(server, "READY")
        server.cli("models", "unload", "digits", "--wait")

        alone = self.submit(server, "alone", "cpu:1", "exclusive: true\n")
        self.runs_on(server, alone, "cpu:1")
        device = next(d for d in server.devices() if d["name"] == "cpu:1")
        self.assertEqual(device["limit_bytes"], device["committed_bytes"])
        self.assertRegex(server.cli("get", alone), r"asks for: +cpu:1, exclusive")

        waits = self.submit(server, "waits", "cpu:1")
        taken = f"job {alone} has cpu:1 to itself"
        self.wait_for_reason(server, waits, taken)
        self.assertIn(f"job {alone} has it to itself", server.cli("why", waits))
        version = server.json("models", "load", "digits", "--device", "cpu:1")
        self.assertEqual("LOADING", version["state"], version)
        harness.wait_until(lambda: taken in self.version(server).get("error", ""), 30,
                           "the model to say why it waits")
        self.assertIn("(cpu:1)", server.cli("models", "list"))
        waited = server.cli("models", "load", "digits", "--device", "cpu:1", "--wait",
                            "--timeout", "200ms", code=124)
        self.assertIn("is still loading after 0.2s: it waits for ", waited)
        self.assertIn(taken, waited)
        self.runs_on(server, self.submit(server, "elsewhere"), "cpu:0")

        self.restart(server)
        self.wait_for_reason(server, waits, taken)
        server.cli("cancel", alone)
        self.assertEqual("cpu:1", self.wait_version(server, "READY")["device"])
        self.runs_on(server, waits, "cpu:1")

        again = self.submit(server, "again", "cpu:1", "exclusive: true\n")
        self.wait_for_reason(server, again, "all of cpu:1 (exclusive: true); on cpu:1 are "
                                            "1 job and 1 model")
        path = server.state / "plan.yaml"
        path.write_text(harness.digits_job("plan", device="cpu:1") + "exclusive: true\n")
        fits = {f["device"]: f for f in server.json("plan", path)["devices"]}
        self.assertFalse(fits["cpu:1"].get("fits_now", False))
        self.assertTrue(fits["cpu:1"]["fits_ever"])
        self.assertFalse(fits["cpu:0"].get("fits_ever", False))
        server.cli("cancel", waits)
        server.wait_job(waits)
        self.assertEqual("QUEUED", server.job(again)["state"])
        server.cli("models", "unload", "digits", "--wait")
        self.runs_on(server, again, "cpu:1")

    def test_a_gang_says_all_its_devices(self):
        server = self.start_server()
        gang = self.submit(server, "gang", extra="devices: 2\n")
        server.wait_job(gang, ("RUNNING",))
        self.assertIn("on cpu:0, cpu:1 and waits for nothing", server.cli("why", gang))

    def test_a_model_is_served_where_it_is_wanted(self):
        server = self.start_server()
        server.wait_job(self.submit(server, "digits", steps=30, publish="true"))
        first = self.wait_version(server, "READY")["device"]
        other = "cpu:1" if first == "cpu:0" else "cpu:0"
        refused = server.cli("models", "load", "digits", "--device", other, code=6)
        self.assertIn(f"is loaded on {first} and does not move", refused)
        self.assertIn("gpupool models unload digits/1", refused)
        server.cli("models", "unload", "digits", "--wait")
        loaded = server.json("models", "load", "digits", "--device", other, "--wait")
        self.assertEqual((other, "READY"), (loaded["device"], loaded["state"]))
        # A lost worker is restarted, and the model is loaded there again.
        pid = server.worker_pids()[other]
        harness.os.kill(pid, harness.signal.SIGKILL)
        harness.wait_until(lambda: server.worker_pids().get(other, pid) != pid, 60,
                           "another worker")
        self.assertEqual(other, self.wait_version(server, "READY")["device"])
        self.assertEqual(other, self.version(server)["wanted_device"])

    def test_names_that_do_not_exist_are_answered_with_those_that_do(self):
        server = self.start_server()
        path = server.state / "bad.yaml"
        for device, answer in {
                "cpu:9": "it has cpu:0, cpu:1",
                "cuda": "it has cpu:0, cpu:1",
                "mps": 'a kind (\\"cuda\\" or \\"cpu\\")',
                "gpu": 'write \\"cuda\\"',
                "gpu:1": 'write \\"cuda:1\\"',
                "cuda:": "a number comes after the colon",
                "cpu:01": 'write \\"cpu:1\\", without spaces',
                "cpu:0,1": "their number in `devices`"}.items():
            path.write_text(harness.digits_job("bad", device=device))
            answer = answer.replace('\\"', '"')
            self.assertIn(answer, server.cli("submit", path, code=2), device)
            self.assertIn(answer, server.cli("plan", path, code=2), device)
        path.write_text(harness.digits_job("bad", device="cpu:1") + "devices: 2\n")
        self.assertIn("write `device: cpu`", server.cli("submit", path, code=2))
        server.wait_job(self.submit(server, "digits", steps=30, publish="true"))
        self.wait_version(server, "READY")
        refused = server.cli("models", "load", "digits", "--device", "cpu:9", code=2)
        self.assertIn("it has cpu:0, cpu:1", refused)


if __name__ == "__main__":
    harness.main()
