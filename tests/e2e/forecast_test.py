#!/usr/bin/env python3
"""When and where a job would start: planned, predicted and measured."""
import re

import harness

LONG = 1000000


class Forecast(harness.TestCase):
    def start_server(self):
        # One job takes all of a small device.
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        need = int(server.json("plan", self.write(server, harness.digits_job()))
                   ["plan"]["training"]["peak"])
        limit = int(server.devices()[0]["limit_bytes"])
        server.cli("devices", "fraction", "cpu:0", f"{1.5 * need / limit:.9f}")
        return server

    def write(self, server, spec):
        path = server.state / "plan.yaml"
        path.write_text(spec)
        return path

    def measured(self, server):
        """Returns how many predictions were compared with starts."""
        found = re.search(r"gpupool_start_prediction_error_seconds_count (\d+)",
                          server.metrics())
        return int(found.group(1)) if found else 0

    def plan(self, server, spec):
        return server.cli("plan", self.write(server, spec))

    def test_a_plan_says_when_and_where_and_a_prediction_is_measured(self):
        server = self.start_server()
        spec = harness.digits_job("digits")
        self.assertIn("would start at once on cpu:0", self.plan(server, spec))
        first = server.submit(harness.digits_job("long", steps=LONG))
        server.wait_step(first, 20)
        planned = self.plan(server, spec)
        self.assertRegex(planned, r"would start at \d{4}-.*, in .* on cpu:0")
        self.assertRegex(planned, r"now: waits for .* on a device")
        self.assertEqual(0, self.measured(server), "the first started at once")
        waits = server.submit(spec)
        predicted = harness.wait_until(
            lambda: server.job(waits).get("predicted_start_time"),
            what="a predicted start")
        self.assertIn("expected to start", server.cli("get", waits))
        # It starts much earlier, and the metric shows that.
        server.cli("cancel", first)
        ended = server.wait_job(waits)
        self.assertEqual("SUCCEEDED", ended["state"], ended)
        self.assertEqual(predicted, ended["predicted_start_time"])
        self.assertEqual(1, self.measured(server))

    def test_what_nobody_knows_is_said_so(self):
        server = self.start_server()
        spec = harness.digits_job("held") + "hold: true\n"
        self.assertIn("when it would start is unknown: held;",
                      self.plan(server, spec))


if __name__ == "__main__":
    harness.main()
