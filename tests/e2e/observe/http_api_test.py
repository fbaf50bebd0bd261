#!/usr/bin/env python3
"""The API as JSON over HTTP, with nothing but Python's urllib."""
import http.client
import json
import pathlib
import sys
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402

SPEC = {
    "name": "by-json",
    "model": {"input_shape": [1, 8, 8],
              "layers": [{"flatten": {}}, {"dense": {"units": 10}}]},
    "data": {"dataset": "digits", "held_out": {"every": 5}},
    "training": {"cross_entropy": {}, "adam": {"learning_rate": 0.001},
                 "batch_size": 32, "steps": 200, "report_every_steps": 50},
}


class HttpApi(harness.TestCase):
    def setUp(self):
        self.server = self.start("--devices", "cpu:1")

    def url(self, path):
        return f"http://127.0.0.1:{self.server.ports['http_port']}{path}"

    def get(self, path):
        return urllib.request.urlopen(self.url(path), timeout=harness.PATIENCE)

    def open(self, method, message, **headers):
        request = urllib.request.Request(
            self.url(f"/api/gpupool.v1.{method}"), json.dumps(message).encode(),
            {"Content-Type": "application/json", **headers}, method="POST")
        return urllib.request.urlopen(request, timeout=harness.PATIENCE)

    def call(self, method, message):
        with self.open(method, message) as answer:
            return json.load(answer)

    def refused(self, method, message, **headers):
        """Returns the HTTP status and the body of a call that fails."""
        with self.assertRaises(urllib.error.HTTPError) as raised:
            self.open(method, message, **headers)
        with raised.exception as answer:
            return answer.code, json.load(answer)

    def code_of(self, method, message, **headers):
        status, error = self.refused(method, message, **headers)
        return status, error["code"]

    def submit(self, request_id, **training):
        spec = dict(SPEC, training=dict(SPEC["training"], **training))
        return self.call("JobService/SubmitJob",
                         {"request_id": request_id, "spec": spec})

    def submit_endless(self, request_id):
        return self.submit(request_id, steps=100_000_000, report_every_steps=0)

    def test_a_job_is_submitted_and_followed_to_its_end(self):
        self.server.upload_digits()
        job = self.submit("json-1")
        self.assertEqual(job["id"], self.submit("json-1")["id"])
        with self.open("JobService/WatchJob", {"id": job["id"]}) as stream:
            self.assertEqual("application/x-ndjson", stream.headers["Content-Type"])
            events = [json.loads(line) for line in stream]
        self.assertTrue(all(event["job_id"] == job["id"] for event in events))
        sequences = [int(event["sequence"]) for event in events]
        self.assertEqual(sorted(set(sequences)), sequences)
        changes = [event["state_change"]["to"] for event in events
                   if "state_change" in event]
        self.assertEqual("SUCCEEDED", changes[-1])
        self.assertIn("RUNNING", changes)
        self.assertIn("200", [event["progress"]["step"] for event in events
                              if "progress" in event])
        ended = self.call("JobService/GetJob", {"id": job["id"]})
        self.assertEqual("SUCCEEDED", ended["state"])
        self.assertEqual("", ended["waiting_reason"])
        self.assertEqual(json.loads(self.server.cli("get", job["id"], "-o", "json"))["id"],
                         ended["id"])

    def test_a_stream_shows_events_while_the_job_runs_and_may_be_left(self):
        self.server.upload_digits()
        job = self.submit_endless("json-2")
        with self.open("JobService/WatchJob", {"id": job["id"]},
                       Accept="text/event-stream") as stream:
            self.assertEqual("text/event-stream", stream.headers["Content-Type"])
            for line in stream:
                if not line.strip():
                    continue
                self.assertTrue(line.startswith(b"data: {"), line)
                if "progress" in json.loads(line[len("data: "):]):
                    break
        self.call("JobService/CancelJob", {"id": job["id"]})
        self.assertEqual("CANCELLED", self.server.wait_job(int(job["id"]))["state"])

    def test_streams_leave_threads_to_the_others(self):
        self.server.upload_digits()
        job = self.submit_endless("json-3")
        streams = []
        for _ in range(16):
            stream = self.open("JobService/WatchJob", {"id": job["id"]})
            self.addCleanup(stream.close)
            streams.append(stream)
        status, error = self.refused("JobService/WatchJob", {"id": job["id"]})
        self.assertEqual((503, "UNAVAILABLE"), (status, error["code"]))
        self.assertIn("16 streams", error["message"])
        self.assertEqual(job["id"],
                         self.call("JobService/GetJob", {"id": job["id"]})["id"])
        with self.get("/v2/health/ready") as answer:
            self.assertEqual(200, answer.status)
        streams.pop().close()

        def accepted():
            try:
                self.open("JobService/WatchJob", {"id": job["id"]}).close()
                return True
            except urllib.error.HTTPError as error:
                with error:
                    return False
        harness.wait_until(accepted, what="the place of a stream that was left")
        self.call("JobService/CancelJob", {"id": job["id"]})
        # Streams end with the job.
        for stream in streams:
            self.assertIn(b"CANCELLED", stream.read())

    def test_errors_are_those_of_the_rpc(self):
        self.assertEqual((404, "NOT_FOUND"),
                         self.code_of("JobService/GetJob", {"id": 77}))
        self.assertEqual((400, "INVALID_ARGUMENT"), self.code_of(
            "JobService/SubmitJob", {"request_id": "json-4", "spec": {}}))
        status, error = self.refused("JobService/GetJob", {"job": 77})
        self.assertEqual((400, "INVALID_ARGUMENT"), (status, error["code"]))
        self.assertIn("job", error["message"])

    def test_pages_of_other_sites_change_nothing(self):
        self.assertEqual((403, "PERMISSION_DENIED"), self.code_of(
            "AdminService/Drain", {}, Origin="http://evil.example"))
        self.assertEqual((415, "INVALID_ARGUMENT"), self.code_of(
            "AdminService/Drain", {}, **{"Content-Type": "text/plain"}))
        self.assertFalse(self.call("AdminService/GetServerInfo", {})["draining"])

    def test_every_method_of_the_list_is_there(self):
        with self.get("/api") as answer:
            services = json.load(answer)["services"]
        for method in (m for service in services for m in service["methods"]):
            short = method["path"].removeprefix("/api/gpupool.v1.")
            if method["kind"] == "client_streaming":
                status, error = self.refused(short, {})
                self.assertEqual(501, status, method)
                self.assertIn("by gRPC", error["message"])
            else:
                # Nothing is called, since no request has this field.
                status, error = self.refused(short, {"no_such_field": 1})
                self.assertEqual(400, status, method)
                self.assertIn(method["request"], error["message"])

    def test_sigterm_ends_streams_and_exits_with_0(self):
        self.server.upload_digits()
        job = self.submit_endless("json-5")
        self.server.wait_step(int(job["id"]), 1)
        stream = self.open("JobService/WatchJob", {"id": job["id"]})
        self.addCleanup(stream.close)
        self.assertEqual(0, self.server.terminate())
        try:
            last = stream.read().splitlines()[-1]
        except http.client.IncompleteRead as error:
            self.fail(f"the stream was cut off: {error}")
        self.assertEqual("UNAVAILABLE", json.loads(last)["error"]["code"])


if __name__ == "__main__":
    harness.main()
