#!/usr/bin/env python3
"""The life of jobs and models through the real processes."""
import json
import pathlib
import subprocess
import sys
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402


class Lifecycle(harness.TestCase):
    def test_measured_peak_is_the_planned_one_to_the_byte(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        plan = server.json("plan", "examples/digits.yaml")
        self.assertGreater(int(plan["plan"]["training"]["peak"]), 0)
        path = server.state / "job.yaml"
        text = (harness.ROOT / "examples/digits.yaml").read_text()
        path.write_text(text)
        job = server.wait_job(int(server.json("submit", path)["id"]))
        self.assertEqual("SUCCEEDED", job["state"], job)
        self.assertEqual(plan["plan"]["training"]["peak"],
                         job["memory"]["planned_peak_bytes"])
        self.assertEqual(job["memory"]["planned_peak_bytes"],
                         job["memory"]["measured_peak_bytes"])

    def test_sigterm_checkpoints_and_a_restart_goes_on(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        calm = server.wait_job(server.submit(harness.digits_job("calm", steps=2000)))
        job = server.submit(harness.digits_job("drained", steps=2000,
                                               checkpoint_every_steps=0))
        server.wait_step(job, 300)
        self.assertEqual(0, server.terminate())
        self.assertEqual({}, server.worker_pids(), "workers end with a drain")
        server.start()
        done = server.wait_job(job)
        self.assertEqual("SUCCEEDED", done["state"], done)
        self.assertEqual(server.weights_sha256(calm), server.weights_sha256(done))

    def test_cancel_stops_a_running_and_a_queued_job(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        running = server.submit(harness.digits_job("long", steps=1000000))
        server.wait_step(running, 20)
        server.cli("cancel", running)
        self.assertEqual("CANCELLED", server.wait_job(running)["state"])
        self.assertEqual([], [d for d in server.devices() if d.get("job_ids")])

    def test_run_follows_and_returns_the_jobs_fate(self):
        server = self.start("--devices", "cpu:1")
        good = server.state / "good.yaml"
        good.write_text(harness.digits_job(steps=60))
        out = server.cli("run", good, "--data", harness.DIGITS)
        self.assertIn("step 60 of 60", out)
        bad = server.state / "bad.yaml"
        bad.write_text(harness.digits_job(steps=400, learning_rate="1e30"))
        server.cli("run", bad, code=1)

    def test_two_jobs_share_two_devices(self):
        server = self.start("--devices", "cpu:2")
        server.upload_digits()
        jobs = [server.submit(harness.digits_job(f"j{i}", steps=2000)) for i in (1, 2)]
        for job in jobs:
            server.wait_step(job, 1)
        used = {server.job(job)["device"] for job in jobs}
        self.assertEqual({"cpu:0", "cpu:1"}, used)

    def test_metrics_pass_promtool_and_cover_the_dashboard(self):
        # The names of Triton's metrics break promtool's rules.
        server = self.start("--devices", "cpu:1", "--triton-metrics=false")
        server.upload_digits()
        server.wait_job(server.submit(harness.digits_job(steps=60, publish="true")))
        server.cli("models", "load", "digits", "--wait")
        server.cli("models", "infer", "digits", "--data", harness.DIGITS,
                   "--rows", "last:20")
        # Some series are those of running jobs.
        server.wait_step(server.submit(harness.digits_job("long", steps=10**6)), 1)
        text = server.metrics()
        done = subprocess.run(["promtool", "check", "metrics"], input=text,
                              capture_output=True, text=True)
        self.assertEqual((0, "", ""), (done.returncode, done.stdout, done.stderr))
        self.assertIn('gpupool_jobs{state="succeeded"} 1', text)
        self.assertNotIn("nv_", text)
        import re
        names = set(re.findall(r"^# TYPE (\S+) (?:counter|gauge)$", text, re.M))
        for base in re.findall(r"^# TYPE (\S+) histogram$", text, re.M):
            names |= {base + suffix for suffix in ("_bucket", "_sum", "_count")}
        board = (harness.ROOT / "deploy/grafana/dashboards/gpupool.json").read_text()
        rules = (harness.ROOT / "deploy/prometheus/alerts.yml").read_text()
        expressions = [target["expr"] for panel in json.loads(board)["panels"]
                       for target in panel.get("targets", [])]
        used = set(re.findall(r"gpupool_\w+", " ".join(expressions) + " " + " ".join(
            re.findall(r"expr: (.*)", rules))))
        self.assertGreater(len(used), 8)
        self.assertEqual(set(), used - names)

    def test_http_says_live_and_ready(self):
        server = self.start("--devices", "cpu:1")
        for path in ("live", "ready"):
            url = f"http://127.0.0.1:{server.ports['http_port']}/v2/health/{path}"
            self.assertEqual(200, urllib.request.urlopen(url, timeout=harness.PATIENCE).status)

    def test_cuda_is_refused_politely_where_there_is_none(self):
        done = subprocess.run(
            [harness.BIN / "gpupoold", "--devices", "cuda:0", "--state-dir",
             str(pathlib.Path(self.start().state) / "other")],
            capture_output=True, text=True, timeout=harness.PATIENCE)
        self.assertNotEqual(0, done.returncode)
        self.assertIn("cuda", done.stderr)


if __name__ == "__main__":
    harness.main()
