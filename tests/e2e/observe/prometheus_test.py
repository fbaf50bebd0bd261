#!/usr/bin/env python3
"""A real Prometheus scrapes the server with the configuration that we ship."""
import json
import pathlib
import socket
import subprocess
import sys
import urllib.parse
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402


# Queries of boards and autoscalers that were made for Triton Inference Server,
# each with whether its value is above 0 while a model answers.
TRITON = {
    "sum(rate(nv_inference_request_success[1m])) by (model, version)": True,
    "rate(nv_inference_count[1m])": True,
    "rate(nv_inference_exec_count[1m])": True,
    "rate(nv_inference_count[1m]) / rate(nv_inference_exec_count[1m])": True,
    "rate(nv_inference_request_duration_us[1m])"
    " / rate(nv_inference_request_success[1m])": True,
    "avg(rate(nv_inference_queue_duration_us[1m])"
    " / (1 + rate(nv_inference_request_success[1m])))": False,
    "rate(nv_inference_compute_infer_duration_us[1m])": True,
    "rate(nv_inference_compute_input_duration_us[1m])": False,
    "rate(nv_inference_compute_output_duration_us[1m])": False,
    "sum by (model) (nv_inference_request_failure)": False,
    'nv_inference_request_failure{reason="REJECTED"}': False,
    "nv_inference_pending_request_count": False,
}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Prometheus(harness.TestCase):
    def query(self, expression):
        url = (f"http://127.0.0.1:{self.port}/api/v1/query?"
               + urllib.parse.urlencode({"query": expression}))
        try:
            answer = json.load(urllib.request.urlopen(url, timeout=harness.PATIENCE))
        except OSError:
            return []
        return answer["data"]["result"]

    def scrape(self, server):
        """Starts a Prometheus that scrapes the server, and waits for the first scrape."""
        config = server.state / "prometheus"
        config.mkdir()
        shipped = harness.ROOT / "deploy/prometheus"
        text = (shipped / "prometheus.yml").read_text()
        self.assertIn("gpupool:8002", text)
        (config / "prometheus.yml").write_text(
            text.replace("gpupool:8002", f"127.0.0.1:{server.ports['metrics_port']}")
                .replace("_interval: 5s", "_interval: 1s"))
        (config / "alerts.yml").write_text((shipped / "alerts.yml").read_text())
        self.port = free_port()
        process = subprocess.Popen(
            ["prometheus", f"--config.file={config}/prometheus.yml",
             f"--storage.tsdb.path={config}/data",
             f"--web.listen-address=127.0.0.1:{self.port}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        harness.wait_until(
            lambda: [r for r in self.query('up{job="gpupool"}') if r["value"][1] == "1"],
            30, "Prometheus to scrape the server")

    def test_scrapes_and_evaluates_the_rules(self):
        server = self.start("--devices", "cpu:2")
        self.scrape(server)
        memory = harness.wait_until(
            lambda: self.query('gpupool_device_memory_bytes{kind="limit"}'), 10, "memory")
        self.assertEqual({"cpu:0", "cpu:1"}, {r["metric"]["device"] for r in memory})
        rules = json.load(urllib.request.urlopen(
            f"http://127.0.0.1:{self.port}/api/v1/rules", timeout=harness.PATIENCE))
        groups = rules["data"]["groups"]
        self.assertEqual(["gpupool"], [g["name"] for g in groups])
        self.assertEqual([], [r["name"] for r in groups[0]["rules"]
                              if r.get("lastError")])

    def test_silent_clients_delay_no_scrape(self):
        server = self.start("--devices", "cpu:1")
        for _ in range(200):
            silent = socket.create_connection(("127.0.0.1", server.ports["metrics_port"]))
            self.addCleanup(silent.close)
        self.scrape(server)

    def test_queries_of_a_triton_board_have_values(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        server.wait_job(server.submit(harness.digits_job(steps=20, publish="true")))
        server.cli("models", "load", "digits", "--wait")
        self.scrape(server)

        def has_values():
            server.cli("models", "infer", "digits", "--data", harness.DIGITS,
                       "--rows", "last:20")
            for expression, positive in TRITON.items():
                values = [float(r["value"][1]) for r in self.query(expression)]
                if len(values) != 1 or not values[0] >= 0 or (positive and values[0] == 0):
                    return False
            return True
        harness.wait_until(has_values, what="values of all queries")
        served = self.query("nv_inference_count")[0]["metric"]
        self.assertEqual(("digits", "1"), (served["model"], served["version"]))


if __name__ == "__main__":
    harness.main()
