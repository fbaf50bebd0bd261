#!/usr/bin/env python3
"""Curves of jobs as runs of an MLflow tracking server, through the real processes. The
server is that of mlflow_server.py, which refuses what MLflow's API does not document."""
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402
import mlflow_server  # noqa: E402


def tracking_server(test, **options):
    server = mlflow_server.TrackingServer(**options)
    test.addCleanup(server.close)
    return server


class Strictness(harness.TestCase):
    """What the server of the test refuses."""

    def setUp(self):
        self.tracking = tracking_server(self)

    def call(self, call, message, code=200):
        request = urllib.request.Request(
            f"{self.tracking.url}/api/2.0/mlflow/{call}", json.dumps(message).encode(),
            {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=harness.PATIENCE) as answer:
                status, body = answer.status, answer.read()
        except urllib.error.HTTPError as error:
            status, body = error.code, error.read()
        self.assertEqual(code, status, body)
        return json.loads(body)

    def test_it_refuses_what_is_not_documented(self):
        run = self.call("runs/create", {"experiment_id": "0"})["run"]["info"]["run_id"]
        point = {"key": "a", "value": 1.5, "timestamp": 1, "step": 1}
        self.call("runs/log-batch", {"run_id": run, "metrics": [point]})
        for wrong in (
                {"metrics": [point]},  # twice
                {"metrics": [dict(point, step=s) for s in range(2, 1003)]},
                {"metrics": [dict(point, step="2")]},
                {"metrics": [dict(point, step=2.0)]},
                {"metrics": [dict(point, value="1.5", step=2)]},
                {"metrics": [dict(point, key="a:b", step=2)]},
                {"metrics": [dict(point, key="a//b", step=2)]},
                {"metrics": [dict(point, key="a" * 251, step=2)]},
                {"metrics": [dict(point, other=1, step=2)]},
                {"metrics": [{"key": "a", "value": 1}]},
                {"params": [{"key": "a", "value": 1}]},
                {"params": [{"key": "a", "value": "x" * 501}]},
                {"params": [{"key": f"p{i}", "value": ""} for i in range(101)]},
                {"other": 1}):
            self.call("runs/log-batch", {"run_id": run, **wrong}, code=400)
        self.call("runs/update", {"run_id": run, "status": "DONE"}, code=400)
        self.call("runs/create", {"experiment_id": 0}, code=400)
        self.call("runs/unknown", {}, code=404)
        self.assertEqual(1, self.tracking.points())


class Mlflow(harness.TestCase):
    def setUp(self):
        for variable in [v for v in os.environ if v.startswith("MLFLOW_")]:
            self.addCleanup(os.environ.__setitem__, variable, os.environ.pop(variable))

    def tracking(self, **options):
        """Returns a tracking server to which nothing wrong may be sent."""
        server = tracking_server(self, **options)
        self.addCleanup(lambda: self.assertEqual([], server.refusals))
        return server

    def ended_job(self, **changes):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        job = server.submit(harness.digits_job(**changes))
        self.assertEqual("SUCCEEDED", server.wait_job(job)["state"])
        return server, job

    def follower(self, server, job, tracking):
        process = subprocess.Popen(
            [harness.BIN / "gpupool", "--address", server.address, "logs", str(job),
             "--mlflow", tracking.url, "--follow"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        return process

    def events(self, server, job, kind):
        """Returns the events of a kind that `gpupool logs` prints."""
        lines = server.cli("logs", job, "--all", "-o", "json").splitlines()
        found = [json.loads(line) for line in lines]
        return [event[kind] for event in found if kind in event]

    def assert_matches_the_events(self, server, job, run):
        progress = self.events(server, job, "progress")
        self.assertEqual([int(p["step"]) for p in progress],
                         [step for step, _, _ in run.metrics["loss/training"]])
        for (_, _, value), event in zip(run.metrics["loss/training"], progress):
            self.assertTrue(math.isclose(value, event["loss"], rel_tol=1e-6))
        evaluations = self.events(server, job, "evaluation")
        self.assertEqual([int(e["step"]) for e in evaluations],
                         [step for step, _, _ in run.metrics["held_out/accuracy"]])

    def test_an_ended_job_is_a_run_that_has_all_of_it(self):
        server, job = self.ended_job(steps=400)
        tracking = self.tracking()
        said = server.json("logs", job, "--mlflow", tracking.url)
        (run,) = tracking.runs
        found = server.job(job)
        self.assertEqual(tracking.experiments["gpupool"], run.experiment_id)
        self.assertEqual(("digits", "FINISHED"), (run.name, run.status))
        self.assertLessEqual(run.start_time, run.end_time)
        self.assertEqual(str(job), run.tags["gpupool.job_id"])
        self.assertEqual(server.address, run.tags["gpupool.server"])
        self.assertEqual("digits", run.tags["gpupool.model"])
        self.assertEqual("400", run.params["training.steps"])
        self.assertEqual("0.001", run.params["training.adam.learning_rate"])
        self.assertEqual("1, 8, 8", run.params["model.input_shape"])
        self.assert_matches_the_events(server, job, run)
        self.assertEqual(run.id, said["run_id"])
        self.assertEqual(tracking.points(), said["points"])
        self.assertEqual(sorted(run.metrics), said["metrics"])
        self.assertEqual(found["spec"]["name"], run.params["name"])

    def test_a_second_call_sends_nothing_twice(self):
        server, job = self.ended_job(steps=40)
        tracking = self.tracking()
        server.cli("logs", job, "--mlflow", tracking.url)
        calls = tracking.count("runs/log-batch")
        said = server.json("logs", job, "--mlflow", tracking.url)
        self.assertEqual(0, said["points"])
        self.assertEqual(1, len(tracking.runs))
        self.assertEqual(calls, tracking.count("runs/log-batch"))
        server.cli("logs", job, "--mlflow", tracking.url, "--experiment", "a b/c")
        self.assertEqual(2, len(tracking.runs))
        self.assertIn("a b/c", tracking.experiments)

    def test_a_run_grows_while_its_job_runs_and_survives_a_killed_client(self):
        server, job, hold = self.start_held_job(150)
        tracking = self.tracking()
        first = self.follower(server, job, tracking)
        harness.wait_until(tracking.points, what="points of a job that runs")
        self.assertIsNone(first.poll(), "it follows the job")
        self.assertEqual("RUNNING", tracking.runs[0].status)
        first.send_signal(signal.SIGKILL)
        first.wait()
        second = self.follower(server, job, tracking)
        hold.release()
        self.assertEqual("SUCCEEDED", server.wait_job(job)["state"])
        out, err = second.communicate(timeout=harness.PATIENCE)
        self.assertEqual(0, second.returncode, err)
        self.assertIn(f"until job {job} ends", err)
        self.assertIn("see them at", out)
        (run,) = tracking.runs
        self.assertEqual("FINISHED", run.status)
        self.assert_matches_the_events(server, job, run)

    def test_a_job_that_lost_its_worker_has_each_step_once(self):
        server, job, _ = self.start_held_job(190)
        os.kill(server.worker_pids()["cpu:0"], signal.SIGKILL)
        self.assertEqual("SUCCEEDED", server.wait_job(job)["state"])
        tracking = self.tracking()
        server.cli("logs", job, "--mlflow", tracking.url)
        (run,) = tracking.runs
        for key, points in run.metrics.items():
            steps = [step for step, _, _ in points]
            self.assertEqual(sorted(set(steps)), steps, key)
        self.assertEqual(400, run.metrics["loss/training"][-1][0])

    def test_calls_that_fail_for_a_time_are_repeated(self):
        server, job = self.ended_job(steps=40)
        tracking = self.tracking()
        tracking.fail_next("experiments/create", 503, has_effect=True)
        tracking.fail_next("runs/create", 500, has_effect=True)
        for call in ("runs/log-batch", "runs/log-batch metrics"):
            tracking.fail_next(call, 429, has_effect=False)
            tracking.fail_next(call, 502, has_effect=True)
        tracking.fail_next("runs/update", 504, has_effect=True)
        server.cli("logs", job, "--mlflow", tracking.url)
        (run,) = tracking.runs
        self.assertEqual("FINISHED", run.status)
        self.assertEqual({}, {call: left for call, left in tracking.faults.items() if left})
        self.assert_matches_the_events(server, job, run)

    def test_a_cancelled_job_is_a_killed_run(self):
        server, job, hold = self.start_held_job(50)
        server.cli("cancel", job)
        hold.release()
        self.assertEqual("CANCELLED", server.wait_job(job)["state"])
        tracking = self.tracking()
        server.cli("logs", job, "--mlflow", tracking.url)
        self.assertEqual("KILLED", tracking.runs[0].status)

    def test_credentials_are_those_of_mlflows_client(self):
        server, job = self.ended_job(steps=40)
        tracking = tracking_server(self, authorization="Bearer abc")
        refused = server.cli("logs", job, "--mlflow", tracking.url, code=4)
        self.assertIn("MLFLOW_TRACKING_TOKEN", refused)
        os.environ["MLFLOW_TRACKING_TOKEN"] = "abc"
        self.addCleanup(os.environ.pop, "MLFLOW_TRACKING_TOKEN")
        server.cli("logs", job, "--mlflow", tracking.url)
        self.assertEqual("FINISHED", tracking.runs[0].status)

    def test_servers_that_are_not_mlflow_are_refused(self):
        server, job = self.ended_job(steps=40)
        own = f"http://127.0.0.1:{server.ports['http_port']}"
        refused = server.cli("logs", job, "--mlflow", own, code=2)
        self.assertIn(f"no MLflow tracking server at {own}", refused)
        closed = mlflow_server.TrackingServer()
        closed.close()
        refused = server.cli("logs", job, "--mlflow", closed.url, code=5)
        self.assertIn(f"cannot reach an MLflow server at {closed.url}", refused)
        refused = server.cli("logs", job, "--mlflow", "databricks://x", code=2)
        self.assertIn("the scheme 'databricks'", refused)


if __name__ == "__main__":
    harness.main()
