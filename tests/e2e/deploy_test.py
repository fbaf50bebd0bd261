#!/usr/bin/env python3
"""The files under deploy/ and docker/ are valid and agree with the binaries."""
import json
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402


class Deploy(unittest.TestCase):
    def promtool(self, *arguments):
        done = subprocess.run(["promtool", "check", *arguments], capture_output=True,
                              text=True, cwd=harness.ROOT / "deploy/prometheus")
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def test_prometheus_config_and_rules(self):
        self.promtool("config", "prometheus.yml")
        self.promtool("rules", "alerts.yml")

    def test_dashboard_is_json_with_a_query_in_every_panel(self):
        board = json.loads(
            (harness.ROOT / "deploy/grafana/dashboards/gpupool.json").read_text())
        panels = [p for p in board["panels"] if p["type"] != "row"]
        self.assertGreaterEqual(len(panels), 8)
        for panel in panels:
            self.assertTrue(panel["targets"], panel["title"])

    def test_images_and_unit_use_flags_that_the_daemon_has(self):
        help_text = subprocess.run([harness.BIN / "gpupoold", "--help"],
                                   capture_output=True, text=True).stdout
        for path in ("docker/cpu.Dockerfile", "docker/cuda.Dockerfile",
                     "deploy/systemd/gpupoold.service"):
            text = (harness.ROOT / path).read_text()
            line = re.search(r"^(ENTRYPOINT|ExecStart=).*gpupoold.*$", text, re.M).group(0)
            flags = re.findall(r"--[a-z-]+", line)
            self.assertTrue(flags, path)
            for flag in flags:
                self.assertIn(flag, help_text, path)

    def test_images_run_as_an_ordinary_user_with_a_health_check(self):
        for name in ("cpu", "cuda"):
            text = (harness.ROOT / f"docker/{name}.Dockerfile").read_text()
            self.assertRegex(text, r"(?m)^USER gpupool$")
            self.assertRegex(text, r"(?m)^HEALTHCHECK ")

    def test_cuda_image_has_every_library_that_the_module_opens(self):
        opened = {name for path in (harness.ROOT / "engine/backends/cuda").rglob("*.cc")
                  for name in re.findall(r'Open\("(lib\S+?\.so\.\d+)"', path.read_text())}
        self.assertIn("libcublasLt.so.13", opened)
        text = (harness.ROOT / "docker/cuda.Dockerfile").read_text()
        missing = {name for name in opened if name not in text}
        # The driver's own libraries come from the host, with --gpus.
        self.assertEqual(set(), missing - {"libcuda.so.1", "libnvidia-ml.so.1"})

    def test_gpus_are_reserved_for_the_service_that_the_other_file_names(self):
        plain = (harness.ROOT / "docker/compose.yaml").read_text()
        gpus = (harness.ROOT / "docker/compose.cuda.yaml").read_text()
        service = re.search(r"^services:\n  (\w+):\n    build:", gpus, re.M).group(1)
        self.assertRegex(plain, rf"(?m)^  {service}:\n    build:\n      context: \.\.$")
        dockerfile = re.search(r"dockerfile: (\S+)", gpus).group(1)
        self.assertTrue((harness.ROOT / dockerfile).is_file())
        self.assertRegex(gpus, r"driver: nvidia\s+count: all\s+capabilities: \[gpu\]")


if __name__ == "__main__":
    harness.main()
