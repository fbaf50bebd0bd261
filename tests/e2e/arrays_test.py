#!/usr/bin/env python3
"""Arrays of jobs with the real processes: one submission, many tasks."""
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402

LIVE = ("STARTING", "RUNNING", "CANCELLING")


def array_job(indices, at_once, steps=400, values="", **changes):
    array = f"""
array:
  indices: {indices}
  max_at_once: {at_once}
  values:
    training.seed: ${{index}}
{values}"""
    return harness.digits_job(name='"task-${index}"', steps=steps, **changes) + array


class Arrays(harness.TestCase):
    def tasks(self, server, array):
        jobs = server.json("jobs", "--array", array)["jobs"]
        return sorted(jobs, key=lambda job: int(job.get("array_index", 0)))

    def counts(self, server, array):
        counts = server.json("get", array).get("counts", [])
        return {count["state"]: count["tasks"] for count in counts}

    def state_events(self, server, job):
        load = harness.stubs()
        pb, rpc = load("gpupool.v1.job")
        stub = rpc.JobServiceStub(server.channel())
        return [event.state_change
                for event in stub.WatchJob(pb.WatchJobRequest(id=int(job)),
                                           timeout=harness.PATIENCE)
                if event.WhichOneof("event") == "state_change"]

    def test_a_kill_in_the_middle_loses_no_task_and_keeps_the_limit(self):
        server = self.start("--devices", "cpu:3")
        server.upload_digits()
        array = server.submit(array_job("0-7", 2), "--request-id", "once")
        self.assertEqual(8, sum(self.counts(server, array).values()))
        most = 0

        def look():
            nonlocal most
            tasks = self.tasks(server, array)
            self.assertEqual(8, len(tasks))
            most = max(most, sum(task["state"] in LIVE for task in tasks))
            self.assertLessEqual(most, 2)
            return tasks

        running = []

        def in_the_middle():
            tasks = look()
            running[:] = [task["id"] for task in tasks if task["state"] == "RUNNING"]
            return running and any(task["state"] == "SUCCEEDED" for task in tasks)

        harness.wait_until(in_the_middle, 120, "one task to end and another one to run")
        server.kill()
        server.start()
        self.assertEqual(array, server.submit(array_job("0-7", 2), "--request-id", "once"),
                         "the same request is the same array")
        harness.wait_until(
            lambda: all(task["state"] in harness.TERMINAL for task in look()), 240,
            "all tasks to end")
        self.assertEqual(2, most)
        self.assertEqual({"SUCCEEDED": 8}, self.counts(server, array))
        for index, task in enumerate(look()):
            self.assertEqual(f"task-{index}", task["spec"]["name"])
            self.assertEqual(index, int(task["spec"]["training"].get("seed", 0)))
            ends = [change for change in self.state_events(server, task["id"])
                    if change.to >= 6]
            self.assertEqual(1, len(ends), "a task ends once")
            if task["id"] in running:
                self.assertEqual(1, task["attempt"], "its worker went on with it")

    def test_why_a_task_stands_aside(self):
        server = self.start("--devices", "cpu:2")
        server.upload_digits()
        array = server.submit(array_job("0-3", 1, steps=10 ** 7))
        why = server.wait_why(
            f"{array}_3", f"array {array} runs at most 1 task at once (max_at_once)")
        self.assertIn("ends or is held", why)
        self.assertIn("at most 1 at once", server.cli("jobs"))
        self.assertNotIn("task-3", server.cli("jobs"))
        self.assertIn("task-3", server.cli("jobs", "--tasks"))
        server.cli("cancel", array)
        server.cli("wait", array, "--timeout", "60s", code=1)
        self.assertEqual({"CANCELLED": 4}, self.counts(server, array))

    def test_holding_releasing_and_cancelling_all(self):
        server = self.start("--devices", "cpu:2")
        server.upload_digits()
        array = server.submit(array_job("0-5", 2, steps=10 ** 7))
        server.wait_job(int(self.tasks(server, array)[0]["id"]), ("RUNNING",))
        server.cli("hold", array)
        harness.wait_until(lambda: self.counts(server, array) == {"QUEUED": 6}, 60,
                           "all tasks to wait")
        server.cli("release", array)
        harness.wait_until(
            lambda: sum(self.counts(server, array).get(s, 0) for s in LIVE) == 2, 60,
            "two tasks to run again")
        server.cli("requeue", array)
        after = server.submit(harness.digits_job(steps=5) + f"\nafter_any: [{array}]\n")
        fails = server.submit(harness.digits_job(steps=5) + f"\nafter_ok: [{array}]\n")
        server.cli("cancel", array)
        self.assertEqual("FAILED", server.wait_job(fails)["state"])
        self.assertEqual("SUCCEEDED", server.wait_job(after)["state"])
        self.assertEqual({"CANCELLED": 6}, self.counts(server, array))

    def test_one_task_fails_and_the_others_do_not(self):
        server = self.start("--devices", "cpu:2")
        server.upload_digits()
        rates = '    training.adam.learning_rate: [0.001, 1e30, 0.001]\n'
        array = server.submit(array_job("0-2", 2, steps=100, values=rates))
        server.cli("wait", array, "--timeout", "120s", code=1)
        self.assertEqual({"SUCCEEDED": 2, "FAILED": 1}, self.counts(server, array))
        self.assertEqual("FAILED", server.job(f"{array}_1")["state"])
        server.submit_fails = harness.digits_job(steps=5) + f"\nafter_ok: [{array}]\n"
        path = server.state / "late.yaml"
        path.write_text(server.submit_fails)
        self.assertIn("1 task has failed", server.cli("submit", path, code=6))

    def test_a_thousand_tasks_are_taken_at_once_or_not_at_all(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        begin = time.monotonic()
        array = server.submit(array_job("0-999", 1, steps=10 ** 7))
        print(f"1,000 tasks were acknowledged in {time.monotonic() - begin:.3f} s")
        self.assertEqual(1000, sum(self.counts(server, array).values()))
        path = server.state / "many.yaml"
        path.write_text(array_job("0-1000", 1))
        self.assertIn("more than 1000 tasks", server.cli("submit", path, code=2))
        server.cli("cancel", array)
        server.cli("wait", array, "--timeout", "60s", code=1)


if __name__ == "__main__":
    harness.main()
