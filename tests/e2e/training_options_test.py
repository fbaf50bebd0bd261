#!/usr/bin/env python3
"""Options of job files that change what is trained and what is published."""
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402


class TrainingOptions(harness.TestCase):
    def test_the_best_of_many_evaluations_is_served(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        job = server.wait_job(int(server.json("submit", "examples/best_of_many.yaml")["id"]))
        self.assertEqual("SUCCEEDED", job["state"], job)
        self.assertGreater(job["evaluation"]["accuracy"], 0.9)
        self.assertGreater(job["evaluation"]["top_k_accuracy"],
                           job["evaluation"]["accuracy"])
        best = job["best_checkpoints"]
        self.assertLessEqual(len(best), 2)
        losses = [checkpoint["held_out_loss"] for checkpoint in best]
        self.assertEqual(sorted(losses), losses)
        server.cli("models", "load", "digits-best", "--wait")
        version = server.json("models", "get", "digits-best")["versions"][0]
        self.assertEqual(best[0]["step"], version["step"])
        self.assertEqual(job["memory"]["planned_peak_bytes"],
                         job["memory"]["measured_peak_bytes"])

    def test_a_killed_job_with_everything_ends_with_the_same_bits(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        text = (harness.ROOT / "examples/best_of_many.yaml").read_text()
        text = text.replace("  epochs: 12", "  steps: 600\n  checkpoint_every_steps: 50")
        text = text.replace("patience: 12", "patience: 1000")
        text = text.replace("on_success: true", "on_success: false")
        path = server.state / "job.yaml"
        path.write_text(text)
        calm = server.wait_job(int(server.json("submit", path)["id"]))
        job = int(server.json("submit", path)["id"])
        server.wait_step(job, 120)
        server.terminate()
        server.start()
        done = server.wait_job(job)
        self.assertEqual("SUCCEEDED", done["state"], done)
        self.assertEqual(server.weights_sha256(calm), server.weights_sha256(done))
        steps = [[c["step"] for c in j["best_checkpoints"]] for j in (calm, done)]
        self.assertEqual(*steps)

    def test_other_threads_after_a_restart_make_plans_again(self):
        # One device has all cores. Several devices share them.
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        text = (harness.ROOT / "examples/best_of_many.yaml").read_text()
        text = text.replace("  epochs: 12", "  steps: 600\n  checkpoint_every_steps: 50")
        text = text.replace("patience: 12", "patience: 1000")
        job = server.submit(text)
        server.wait_step(job, 60)
        server.terminate()
        server.arguments = ["--devices", f"cpu:{max(2, os.cpu_count() or 2)}"]
        server.start()
        done = server.wait_job(job)
        self.assertEqual("SUCCEEDED", done["state"], done)
        self.assertEqual(done["plan"]["training"]["peak"],
                         done["memory"]["planned_peak_bytes"])
        self.assertEqual(done["memory"]["planned_peak_bytes"],
                         done["memory"]["measured_peak_bytes"])
        logs = "".join(path.read_text(errors="replace")
                       for path in (server.state / "workers").glob("*/*log*")
                       if path.is_file())
        self.assertNotIn("planned anew", logs)

    def test_every_optimizer_of_the_api_learns_in_the_bytes_that_are_planned(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        messages, _ = harness.stubs()("gpupool.v1.job")
        chosen = messages.TrainingSpec.DESCRIPTOR.oneofs_by_name["optimizer"]
        text = (harness.ROOT / "examples/best_of_many.yaml").read_text()
        text = text.replace("on_success: true", "on_success: false")
        text = text.replace("  schedule:\n    one_cycle: {maximum: 0.01}", "")
        jobs = {}
        for field in chosen.fields:
            rate = "learning_rate: 0.1" if field.name == "sgd" else ""
            jobs[field.name] = server.submit(text.replace(
                "{adamw: {weight_decay: 0.02}}", f"{{{field.name}: {{{rate}}}}}"))
        for name, job in jobs.items():
            done = server.wait_job(job)
            self.assertEqual("SUCCEEDED", done["state"], (name, done))
            self.assertGreater(done["evaluation"]["accuracy"], 0.4, name)
            self.assertEqual(done["memory"]["planned_peak_bytes"],
                             done["memory"]["measured_peak_bytes"], name)

    def test_numbers_outside_of_their_limits_are_refused_by_name(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        text = (harness.ROOT / "examples/best_of_many.yaml").read_text()
        path = server.state / "job.yaml"
        for given, said in (("{adamax: {beta2: 1}}", "training.adamax.beta2 is 1"),
                            ("{sgd: {momentum: 0.9}}", "training.sgd.learning_rate is 0")):
            path.write_text(text.replace("{adamw: {weight_decay: 0.02}}", given))
            with self.assertRaises(harness.CommandFailed) as failed:
                server.cli("submit", path)
            self.assertIn(said, failed.exception.stderr)

    def test_a_pattern_without_a_match_is_refused_at_submission(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        text = (harness.ROOT / "examples/best_of_many.yaml").read_text()
        path = server.state / "job.yaml"
        path.write_text(text.replace("  seed: 3", "  seed: 3\n  freeze: [conv2d_1.weight]"))
        with self.assertRaises(harness.CommandFailed) as failed:
            server.cli("submit", path)
        self.assertIn("no weight is named 'conv2d_1.weight'", failed.exception.stderr)
        self.assertIn("'conv2d_0.weight'", failed.exception.stderr)


if __name__ == "__main__":
    harness.main()
