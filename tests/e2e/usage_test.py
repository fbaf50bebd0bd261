#!/usr/bin/env python3
"""What tenants, jobs and models have used: counted, and kept."""
import csv
import io

import harness


class Usage(harness.TestCase):
    def rows(self, server, *arguments):
        return list(csv.DictReader(io.StringIO(
            server.cli("usage", "--csv", *arguments))))

    def test_sums_are_counted_and_survive_kill_and_forgotten_jobs(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        spec = harness.digits_job("digits", publish="true")
        job = server.submit(spec.replace("name: digits", "name: digits\ntenant: team-a"))
        ended = server.wait_job(job)
        self.assertEqual("SUCCEEDED", ended["state"], ended)
        by_job = [r for r in self.rows(server, "--by", "job") if r["job_id"] == str(job)]
        self.assertEqual(1, len(by_job), by_job)
        row = by_job[0]
        self.assertEqual(("team-a", "digits", "cpu", "training"),
                         (row["tenant"], row["model"], row["device_kind"],
                          row["activity"]))
        # It was on the device while it ran, and for a moment more.
        self.assertGreaterEqual(float(row["device_seconds"]) + 0.05,
                                float(ended["run_seconds"]))
        peak = int(ended["memory"]["planned_peak_bytes"])
        self.assertAlmostEqual(float(row["byte_seconds"]) / peak,
                               float(row["device_seconds"]), delta=0.01)
        self.assertEqual("", row["energy_joules"], "a CPU device tells no power")
        # The model is charged when the ten seconds are over, or when it is unloaded.
        server.cli("models", "unload", "digits")
        serving = harness.wait_until(
            lambda: [r for r in self.rows(server, "--by", "model")
                     if r["activity"] == "serving"], what="serving to be charged")
        self.assertEqual("digits", serving[0]["model"])
        self.assertGreater(float(serving[0]["byte_seconds"]), 0)
        server.kill()
        server.start()
        again = [r for r in self.rows(server, "--by", "job") if r["job_id"] == str(job)]
        self.assertEqual(by_job, again)
        tenants = server.json("usage", "--since", "1h")["rows"]
        self.assertEqual({"team-a"}, {r["tenant"] for r in tenants})
        self.assertIn("DEVICE-HOURS", server.cli("usage"))


if __name__ == "__main__":
    harness.main()
