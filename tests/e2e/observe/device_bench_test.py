#!/usr/bin/env python3
"""Measurements of a device through the real processes."""
import pathlib
import sys
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402


class DeviceBench(harness.TestCase):
    def test_a_result_is_kept_and_drawn(self):
        server = self.start("--devices", "cpu:1")
        self.assertIn("was not measured", self.refusal(server, "--last", code=3))
        bench = server.json("devices", "bench", "cpu:0")
        self.assertEqual({"TO_DEVICE", "FROM_DEVICE", "ON_DEVICE"},
                         {copy["path"] for copy in bench["copies"]})
        self.assertTrue(all(copy["seconds"] > 0 for copy in bench["copies"]))
        self.assertIn("float32", {p["data_type"] for p in bench["products"]})
        self.assertEqual(5, len(bench["allocations"]))
        picture = server.state / "bench.svg"
        table = server.cli("devices", "bench", "cpu:0", "--last", "-O", picture)
        self.assertIn("float32 product", table)
        xml.etree.ElementTree.parse(picture)
        memory = server.json("devices", "memory", "cpu:0")
        self.assertEqual(0, int(memory.get("allocated_bytes", 0)))
        rates = server.json("devices")["devices"][0]["measured_rates"]
        fastest = max(p["flops"] for p in bench["products"]
                      if p["data_type"] == "float32")
        self.assertAlmostEqual(fastest, rates["float32_flops"], delta=fastest * 1e-9)
        server.kill()
        server.start()
        self.assertEqual(bench, server.json("devices", "bench", "cpu:0", "--last"))

    def test_plans_use_the_measured_rates(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        spec = server.state / "plan.yaml"
        spec.write_text(harness.digits_job("planned", steps=100))
        self.assertNotIn("devices bench", server.cli("plan", spec))
        server.cli("devices", "bench", "cpu:0")
        self.assertIn("the rates that `gpupool devices bench` measured",
                      " ".join(server.cli("plan", spec).split()))

    def test_a_device_at_work_is_measured_only_by_force_and_trains_on(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        job = server.submit(harness.digits_job("long", steps=1000000,
                                               checkpoint_every_steps=0))
        server.wait_step(job, 20)
        self.assertIn("--force", self.refusal(server, code=6))
        bench = server.json("devices", "bench", "cpu:0", "--force", timeout=400)
        self.assertTrue(bench["beside_work"])
        server.wait_step(job, int(server.job(job)["progress"]["step"]) + 1)
        self.assertIn("cpu:9", server.cli("devices", "bench", "cpu:9", code=3))

    def refusal(self, server, *options, code):
        return server.cli("devices", "bench", "cpu:0", *options, code=code)


if __name__ == "__main__":
    harness.main()
