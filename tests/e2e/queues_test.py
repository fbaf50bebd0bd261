#!/usr/bin/env python3
"""Several queues through the real processes: rank, devices, tenants, and what a
restart with other queues makes of their jobs."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402

LONG = 2000000
QUEUES = ("urgent:order=srs,rank=10,preempts=yes,tenants=shop+lab;"
          "second:devices=cpu:1,most=1")


class Queues(harness.TestCase):
    def start_server(self, *flags):
        """Starts a server with two devices, each with room for one job."""
        server = self.start("--devices", "cpu:2", "--min-run", "0", *flags)
        server.upload_digits()
        path = server.state / "probe.yaml"
        path.write_text(harness.digits_job("probe"))
        need = int(server.json("plan", path)["plan"]["training"]["peak"])
        for device in server.devices():
            fraction = 1.5 * need / int(device["limit_bytes"])
            server.cli("devices", "fraction", device["name"], f"{fraction:.9f}")
        return server

    def submit(self, server, name, queue, steps=LONG, priority=0, **fields):
        text = harness.digits_job(name, steps=steps, priority=priority,
                                  checkpoint_every_steps=0)
        for key, value in {"queue": queue, **fields}.items():
            if value:
                text += f"{key}: {value}\n"
        return server.submit(text)

    def counts(self, server):
        return {q["name"]: (int(q.get("waiting_jobs", 0)), int(q.get("running_jobs", 0)))
                for q in server.json("queues")["queues"]}

    def test_a_higher_queue_makes_a_lower_one_give_way(self):
        server = self.start_server("--queues", QUEUES)
        lower = [self.submit(server, f"low{i}", "default", priority=1000) for i in range(2)]
        for job in lower:
            server.wait_step(job, 10)
        urgent = self.submit(server, "urgent", "urgent", steps=300, tenant="lab")
        done = server.wait_job(urgent)
        self.assertEqual("SUCCEEDED", done["state"], done)
        stopped = [j for j in lower if f"preempted by job {urgent}" in server.cli("logs", j)]
        self.assertEqual(1, len(stopped))
        self.assertIn("is in a queue of higher rank", server.cli("logs", stopped[0]))
        self.assertIn('gpupool_preemptions_total{reason="queue"} 1', server.metrics())
        server.wait_job(stopped[0], ("RUNNING",))
        self.assertIn("urgent", server.cli("get", urgent))
        for job in lower:
            server.cli("cancel", job)

    def test_devices_limits_and_restarts(self):
        server = self.start_server("--queues", QUEUES)
        first = self.submit(server, "first", "second")
        server.wait_job(first, ("RUNNING",))
        self.assertEqual("cpu:1", server.job(first)["device"])
        waits = self.submit(server, "waits", "second")
        self.assertIn("jobs in queue 'second' may use 1 device at once and use 1",
                      server.job(waits)["waiting_reason"])
        self.assertTrue(any("`most` of queue 'second'" in change
                            for change in server.json("why", waits)["changes"]))
        other = self.submit(server, "other", "")
        server.wait_job(other, ("RUNNING",))
        self.assertEqual("cpu:0", server.job(other)["device"])
        self.assertEqual({"urgent": (0, 0), "second": (1, 1), "default": (0, 1)},
                         self.counts(server))
        table = server.cli("queues")
        for words in ("QUEUE", "second", "fifo", "1 of 1", "cpu:1", "shop,lab"):
            self.assertIn(words, table)
        metrics = server.metrics()
        self.assertIn('gpupool_queue_jobs{queue="second",state="waiting"} 1', metrics)
        self.assertIn('gpupool_queue_devices{queue="second"} 1', metrics)

        self.assertEqual(0, server.terminate())
        server.start()
        server.wait_job(first, ("RUNNING",))
        self.assertEqual("cpu:1", server.job(first)["device"])
        self.assertEqual("QUEUED", server.job(waits)["state"])

        # A queue was removed: no job is lost, and all texts say so.
        server.kill()
        server.arguments = [a for a in server.arguments if a not in ("--queues", QUEUES)]
        server.start()
        words = "where it is since 'second' is no longer configured"
        harness.wait_until(lambda: words in server.job(waits).get("waiting_reason", ""),
                           30, "the reason")
        server.cli("cancel", first)
        server.wait_job(waits, ("RUNNING",))
        for job in (waits, other):
            server.cli("cancel", job)

    def test_who_may_not_wait_there_is_refused(self):
        server = self.start_server("--queues", QUEUES)
        path = server.state / "job.yaml"
        path.write_text(harness.digits_job("job"))
        text = server.cli("submit", path, "--queue", "urgnt", code=2)
        for words in ('no queue "urgnt"', "urgent, second and default"):
            self.assertIn(words, text)
        self.assertIn("no queue", server.cli("plan", path, "--queue", "x", code=2))
        path.write_text(harness.digits_job("job") + "tenant: other\nqueue: urgent\n")
        self.assertIn("may not submit to queue", server.cli("submit", path, code=4))
        path.write_text(harness.digits_job("job") + "queue: second\ndevices: 2\n")
        self.assertIn('jobs in queue "second" may use 1',
                      server.cli("submit", path, code=2))
        plan = server.cli("plan", path.with_name("probe.yaml"), "--queue", "second")
        self.assertIn("cpu:1", plan)


if __name__ == "__main__":
    harness.main()
