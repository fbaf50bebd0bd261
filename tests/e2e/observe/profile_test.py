#!/usr/bin/env python3
"""Profiles of jobs that train, through the real processes."""
import json
import pathlib
import sys
import xml.dom.minidom

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402


class Profile(harness.TestCase):
    def start_with_job(self, *lines, steps=1000000, devices="cpu:1"):
        server = self.start("--devices", devices)
        server.upload_digits()
        spec = harness.digits_job("long", steps=steps, checkpoint_every_steps=0)
        job = server.submit("\n".join([spec, *lines]))
        server.wait_step(job, 20)
        return server, job

    def blobs(self, server):
        return {p.name for p in (server.state / "blobs").iterdir()}

    def test_a_trace_has_the_layers_of_each_step(self):
        server, job = self.start_with_job()
        before = self.blobs(server)
        path = server.state / "trace.json"
        said = server.cli("profile", job, "--steps", 3, "-O", path)
        self.assertIn("3 steps", said)
        self.assertEqual(before, self.blobs(server), "the server keeps no trace")
        events = json.loads(path.read_text())["traceEvents"]
        names = {e["args"]["name"] for e in events if e["ph"] == "M"}
        self.assertEqual({"step"}, names)
        timed = [e for e in events if e["ph"] == "X"]
        self.assertEqual({0, 1, 2}, {e["args"]["run"] for e in timed})
        self.assertTrue(any("conv2d" in e["name"] for e in timed),
                        sorted({e["name"] for e in timed}))
        self.assertTrue(all(e["dur"] >= 0 for e in timed))
        server.wait_step(job, int(server.job(job)["progress"]["step"]) + 20)

    def texts(self, path):
        """Returns the texts of a picture, which must be well-formed."""
        picture = xml.dom.minidom.parse(str(path))
        self.assertEqual("svg", picture.documentElement.tagName)
        return [node.firstChild.data for node in picture.getElementsByTagName("text")]

    def test_memory_along_the_step_has_the_peak_of_the_plan(self):
        server, job = self.start_with_job()
        path, memory = server.state / "trace.json", server.state / "memory.svg"
        said = server.cli("profile", job, "--steps", 2, "-O", path, "--memory", memory)
        events = json.loads(path.read_text())["traceEvents"]
        values = {name: [e["args"]["value"] for e in events
                         if e["ph"] == "C" and e["name"] == name]
                  for name in ("planned bytes", "measured bytes")}
        peak, = (e["args"] for e in events if e["ph"] == "i")
        self.assertEqual(peak["bytes"], max(values["planned bytes"]))
        planned = int(server.job(job)["plan"]["training"]["peak"])
        self.assertEqual(planned, peak["arena"] + peak["outside"])
        self.assertLessEqual(peak["bytes"], planned)
        stats = server.json("devices", "memory", "cpu:0")
        for measured in values["measured bytes"]:
            self.assertLessEqual(peak["bytes"], measured)
            self.assertLessEqual(measured, int(stats["reserved_bytes"]))
        self.assertTrue(peak["values"])
        self.assertIn("memory of 'step': the plan needs", said)
        texts = self.texts(memory)
        self.assertIn("Memory of a step", texts)
        self.assertTrue(any(text.startswith("peak ") for text in texts), texts)

    def test_profiles_of_a_schedule_are_kept_with_the_job(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        spec = harness.digits_job("scheduled", steps=40, checkpoint_every_steps=0)
        schedule = "{skip_first: 5, wait: 3, warmup: 2, active: 4, repeat: 2}"
        job = server.submit(spec.replace(
            "training:", f"training:\n  profile: {schedule}", 1))
        self.assertEqual("SUCCEEDED", server.wait_job(job)["state"])
        recorded = server.json("profile", job, "--list")["recorded_profiles"]
        self.assertEqual([(1, "11", 4), (2, "20", 4)],
                         [(p["cycle"], p["first_step"], p["steps"]) for p in recorded])
        path, memory = server.state / "trace.json", server.state / "memory.svg"
        for _ in range(2):  # it stays
            said = server.cli("profile", job, "--recorded", 2, "-O", path,
                              "--memory", memory)
        self.assertIn("4 steps", said)
        self.assertEqual(int(recorded[1]["bytes"]), path.stat().st_size)
        events = json.loads(path.read_text())["traceEvents"]
        self.assertEqual({0, 1, 2, 3},
                         {e["args"]["run"] for e in events if e["ph"] == "X"})
        self.assertIn("Memory of a step", self.texts(memory))
        self.assertIn("--recorded 2", server.cli("logs", job))
        self.assertIn("it has 1, 2", server.cli("profile", job, "--recorded", 3,
                                                "-O", path, code=3))
        # The weights are those of a job without a profile.
        plain = server.submit(harness.digits_job("plain", steps=40,
                                                 checkpoint_every_steps=0))
        self.assertEqual("SUCCEEDED", server.wait_job(plain)["state"])
        self.assertEqual(server.weights_sha256(server.job(plain)),
                         server.weights_sha256(server.job(job)))

    def test_schedules_beyond_the_limits_are_refused(self):
        server = self.start("--devices", "cpu:2")
        server.upload_digits()
        spec = harness.digits_job("scheduled", steps=40)
        path = server.state / "job.yaml"

        def refused(schedule, *lines):
            path.write_text("\n".join([spec.replace(
                "training:", f"training:\n  profile: {schedule}", 1), *lines]))
            return server.cli("submit", path, code=2)
        self.assertIn("at most 100", refused("{active: 50, repeat: 3}"))
        self.assertIn("training.profile.repeat is 21", refused("{active: 1, repeat: 21}"))
        self.assertIn("2 devices", refused("{active: 5}", "devices: 2"))

    def test_a_profiled_job_ends_with_the_same_weights(self):
        server, job = self.start_with_job(steps=4000)
        server.cli("profile", job, "--steps", 20, "-O", server.state / "trace.json")
        self.assertEqual("SUCCEEDED", server.wait_job(job)["state"])
        other = server.submit(harness.digits_job("plain", steps=4000,
                                                 checkpoint_every_steps=0))
        self.assertEqual("SUCCEEDED", server.wait_job(other)["state"])
        self.assertEqual(server.weights_sha256(server.job(other)),
                         server.weights_sha256(server.job(job)))

    def test_what_cannot_be_profiled_is_refused_in_words(self):
        server, job = self.start_with_job()
        path = server.state / "trace.json"
        self.assertIn("no job", server.cli("profile", 99, "-O", path, code=3))
        server.cli("profile", job, "--steps", 101, "-O", path, code=2)
        held = server.submit(harness.digits_job("held") + "hold: true\n")
        self.assertIn("gpupool why", server.cli("profile", held, "-O", path, code=6))
        server.cli("cancel", job)
        server.wait_job(job)
        self.assertIn("CANCELLED", server.cli("profile", job, "-O", path, code=6))
        self.assertFalse(path.exists())

    def test_a_served_model_is_profiled_and_answers_as_before(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        server.wait_job(server.submit(harness.digits_job(
            "digits", steps=50, publish="true")))
        server.cli("models", "load", "digits", "--wait")
        before = self.blobs(server)
        path, flame = server.state / "trace.json", server.state / "flame.svg"
        memory = server.state / "memory.svg"
        said = server.cli("models", "profile", "digits", "--requests", 3, "--batch", 2,
                          "-O", path, "--flame", flame, "--memory", memory)
        self.assertIn("digits/1, 3 requests", said)
        self.assertIn("LAYER", said)
        self.assertEqual(before, self.blobs(server), "the server keeps no trace")
        events = json.loads(path.read_text())["traceEvents"]
        self.assertEqual({"request"},
                         {e["args"]["name"] for e in events if e["ph"] == "M"})
        timed = [e for e in events if e["ph"] == "X"]
        self.assertEqual({0, 1, 2}, {e["args"]["run"] for e in timed})
        self.assertIn("ms a request", flame.read_text())
        self.assertIn("Memory of a request", self.texts(memory))
        self.texts(flame)
        self.assertIn("rows", server.cli("models", "profile", "digits", "--batch", 60000,
                                         "-O", path, code=2))
        server.cli("models", "unload", "digits", "--wait")
        self.assertIn("models load", server.cli("models", "profile", "digits", "-O", path,
                                                code=6))

    def test_a_job_on_two_devices_is_refused(self):
        server, job = self.start_with_job("devices: 2", devices="cpu:2")
        self.assertIn("2 devices", server.cli("profile", job, "-O",
                                              server.state / "trace.json", code=6))


if __name__ == "__main__":
    harness.main()
