#!/usr/bin/env python3
"""Precisions compared by short trainings, through the real processes."""
import pathlib
import re
import signal
import subprocess
import sys
import xml.dom.minidom

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402

STEPS = 60


class Compare(harness.TestCase):
    def start_with_file(self, scale="0.0625", **changes):
        """Returns a server with two devices and the digits, and a job file."""
        server = self.start("--devices", "cpu:2")
        server.upload_digits()
        path = server.state / "compared.yaml"
        path.write_text(harness.digits_job("net", **changes).replace("0.0625", scale))
        return server, path

    def test_rows_have_speed_bytes_and_losses(self):
        server, path = self.start_with_file(publish="true")
        picture = server.state / "losses.svg"
        rows = server.json("compare", path, "--steps", STEPS, "-O", picture)
        self.assertEqual(["float32", "tf32", "bfloat16", "float16"],
                         [row["precision"] for row in rows])
        base, tf32, bf16, fp16 = rows
        self.assertEqual("NOT_RUN", tf32["state"])
        self.assertIn("no TF32", tf32["reason"])
        for row in (base, bf16, fp16):
            self.assertEqual("SUCCEEDED", row["state"], row)
            self.assertEqual(STEPS, row["steps"])
            self.assertGreater(row["median_step_ms"], 0)
            self.assertAlmostEqual(32e3, row["samples_per_second"] * row["median_step_ms"],
                                   places=3)
            self.assertAlmostEqual(row["speed"],
                                   base["median_step_ms"] / row["median_step_ms"])
            self.assertEqual(row["planned_peak_bytes"], row["measured_peak_bytes"])
            self.assertEqual(base["device"], row["device"])
            self.assertAlmostEqual(row["loss_difference"], row["loss"] - base["loss"])
        self.assertEqual(0, base["loss_difference"])
        # Other arithmetic gives other bits.
        self.assertNotEqual(0, bf16["loss_difference"])
        self.assertNotEqual(base["planned_peak_bytes"], bf16["planned_peak_bytes"])
        self.assertEqual([None, None], [base["skipped_steps"], bf16["skipped_steps"]])
        self.assertIsNotNone(fp16["skipped_steps"])
        self.assertFalse(server.json("models", "list").get("models"))
        labels = [text.firstChild.data for text in
                  xml.dom.minidom.parse(str(picture)).getElementsByTagName("text")]
        for name in ("float32", "bfloat16", "float16"):
            self.assertEqual(1, labels.count(name), labels)
        self.assertNotIn("tf32", labels)

    def test_a_run_is_the_job_itself_made_short(self):
        server, path = self.start_with_file()
        row, = server.json("compare", path, "--steps", STEPS, "--precision", "fp32",
                           "--device", "cpu:1")
        self.assertEqual("cpu:1", row["device"])
        alone = server.wait_job(server.submit(
            harness.digits_job("alone", steps=STEPS, device="cpu:1")))
        self.assertEqual(alone["progress"]["loss"], row["loss"])
        self.assertEqual("net-float32", server.job(row["job_id"])["spec"]["name"])

    def test_a_precision_that_fails_is_a_row(self):
        # float16 has no numbers as large as these features.
        server, path = self.start_with_file(scale="1e6")
        rows = server.json("compare", path, "--steps", STEPS, "--precision",
                           "float16,float32")
        fp16, base = rows
        self.assertEqual("FAILED", fp16["state"], fp16)
        self.assertIn("loss scale", fp16["reason"])
        self.assertGreater(fp16["skipped_steps"], 0)
        self.assertIsNone(fp16["speed"])
        self.assertEqual("SUCCEEDED", base["state"], base)
        self.assertEqual(1, base["speed"])
        self.assertIn("loss scale", server.cli("compare", path, "--steps", STEPS,
                                               "--precision", "float16", code=1))

    def test_without_a_precision_that_the_device_has_it_fails(self):
        server, path = self.start_with_file()
        self.assertIn("no TF32", server.cli("compare", path, "--precision", "tf32", code=2))
        self.assertFalse(server.json("jobs").get("jobs"))

    def test_a_warm_up_longer_than_the_run_is_kept(self):
        server, path = self.start_with_file()
        path.write_text(path.read_text().replace(
            "training:\n", "training:\n  schedule: {warmup_steps: 500}\n"))
        row, = server.json("compare", path, "--steps", 10, "--precision", "float32")
        self.assertEqual("SUCCEEDED", row["state"], row)

    def test_an_interrupt_cancels_the_running_job(self):
        server, path = self.start_with_file()
        with open(server.state / "compare.log", "wb") as log:
            process = subprocess.Popen(
                [harness.BIN / "gpupool", "--address", server.address, "compare", path,
                 "--steps", "1000000"], cwd=harness.ROOT, stdout=log, stderr=log)
        self.addCleanup(process.kill)
        said = server.state / "compare.log"
        job = harness.wait_until(
            lambda: re.search(r"job (\d+) \(net-float32\)", said.read_text()),
            what="compare to name its job").group(1)
        server.wait_step(job, 1)
        process.send_signal(signal.SIGINT)
        self.assertEqual(130, process.wait(harness.PATIENCE), said.read_text())
        self.assertEqual("CANCELLED", server.wait_job(job)["state"])
        self.assertEqual(1, len(server.json("jobs")["jobs"]), "no other job is started")


if __name__ == "__main__":
    harness.main()
