#!/usr/bin/env python3
"""Traces: a daemon with --trace-endpoint sends the spans of requests and of jobs to a
collector of this test, as trees that join the traces of the clients."""
import http.server
import json
import os
import pathlib
import shutil
import ssl
import struct
import subprocess
import sys
import tempfile
import threading
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402

INFER = "inference.GRPCInferenceService/ModelInfer"
STAGES = ["check", "queue", "copy-in", "compute", "answer"]
SUBMIT = "gpupool.v1.JobService/SubmitJob"


class Collector:
    """Takes OTLP over HTTP and keeps the spans."""

    def __init__(self, pki=None):
        pb, _ = harness.stubs()("gpupool.otlp.v1.trace")
        self.lock = threading.Lock()
        self.kept, self.resources, self.problems = [], [], []
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                collector.take(self.path, self.headers["Content-Type"],
                               pb.ExportTraceRequest.FromString(body))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.scheme = "http" if pki is None else "https"
        if pki is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pki / "server.pem", pki / "server.key")
            self.server.socket = context.wrap_socket(self.server.socket,
                                                     server_side=True)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.server.server_port}"

    def take(self, path, content_type, message):
        with self.lock:
            if (path, content_type) != ("/v1/traces", "application/x-protobuf"):
                self.problems.append((path, content_type))
            for resource in message.resource_spans:
                self.resources.append(resource.resource)
                for scope in resource.scope_spans:
                    self.kept += scope.spans

    def spans(self, trace_id):
        with self.lock:
            return [s for s in self.kept if s.trace_id.hex() == trace_id]

    def wait(self, trace_id, name):
        """Returns the spans of the trace once one of this name is there."""
        def there():
            spans = self.spans(trace_id)
            return spans if any(s.name == name for s in spans) else None
        return harness.wait_until(there, what=f"the span {name} of {trace_id}")

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


def caller(number):
    """Returns (trace id, span id, value of traceparent) of a client's span."""
    trace, span = f"{0xabc0000 + number:032x}", f"{0xdef0000 + number:016x}"
    return trace, span, f"00-{trace}-{span}-01"


def attributes(span):
    return {a.key: getattr(a.value, a.value.WhichOneof("value"))
            for a in span.attributes}


class Tracing(harness.TestCase):
    def setUp(self):
        self.collector = Collector()
        self.addCleanup(self.collector.stop)

    def serve(self, sampling):
        server = self.start("--devices", "cpu:1", "--trace-endpoint",
                            self.collector.url, "--trace-sampling", sampling,
                            "--trace-service-name", "pool")
        server.upload_digits()
        return server

    def only(self, spans, name):
        found = [s for s in spans if s.name == name]
        self.assertEqual(1, len(found), f"{name} in {[s.name for s in spans]}")
        return found[0]

    def assert_child(self, parent, child):
        """Checks that a span lies below another one, and within its time."""
        self.assertEqual(parent.span_id, child.parent_span_id, child.name)
        self.assertLessEqual(parent.start_time_unix_nano, child.start_time_unix_nano)
        self.assertLessEqual(child.start_time_unix_nano, child.end_time_unix_nano)
        self.assertLessEqual(child.end_time_unix_nano, parent.end_time_unix_nano,
                             child.name)

    def assert_inference(self, spans, caller_span):
        root = self.only(spans, INFER)
        self.assertEqual(caller_span, root.parent_span_id.hex())
        self.assertEqual(2, root.kind)  # SERVER
        self.assertEqual("a=1", root.trace_state)
        facts = attributes(root)
        self.assertEqual(("grpc", 0, "digits", 1, "cpu:0", 1), tuple(facts[key] for key in (
            "rpc.system", "rpc.grpc.status_code", "gpupool.model", "gpupool.version",
            "gpupool.device", "gpupool.rows")))
        stages = sorted((s for s in spans if s is not root),
                        key=lambda s: s.start_time_unix_nano)
        self.assertEqual(STAGES, [s.name for s in stages])
        for stage in stages:
            self.assert_child(root, stage)

    def infer_by_grpc(self, server, trace_parent):
        pb, rpc = harness.stubs()("inference.grpc_service")
        request = pb.ModelInferRequest(model_name="digits", id="by-grpc")
        request.inputs.add(name="input", datatype="FP32", shape=[1, 1, 8, 8])
        request.raw_input_contents.append(struct.pack("<64f", *range(64)))
        with server.channel() as channel:
            rpc.GRPCInferenceServiceStub(channel).ModelInfer(
                request, timeout=harness.PATIENCE,
                metadata=(("traceparent", trace_parent), ("tracestate", "a=1")))

    def post(self, server, path, message, trace_parent):
        request = urllib.request.Request(
            f"http://127.0.0.1:{server.ports['http_port']}{path}",
            json.dumps(message).encode(),
            {"Content-Type": "application/json", "traceparent": trace_parent,
             "tracestate": "a=1"})
        with urllib.request.urlopen(request, timeout=harness.PATIENCE) as answer:
            return json.load(answer)

    def infer_by_http(self, server, trace_parent):
        self.post(server, "/v2/models/digits/infer", {"id": "by-http", "inputs": [{
            "name": "input", "datatype": "FP32", "shape": [1, 1, 8, 8],
            "data": list(range(64))}]}, trace_parent)

    def trace_settings(self, server, **settings):
        """Sets what is given, and returns the level and the mode."""
        pb, rpc = harness.stubs()("inference.grpc_service")
        request = pb.TraceSettingRequest()
        for name, value in settings.items():
            request.settings[name].value.append(value)
        with server.channel() as channel:
            answer = rpc.GRPCInferenceServiceStub(channel).TraceSetting(
                request, timeout=harness.PATIENCE).settings
        return answer["trace_level"].value[0], answer["trace_mode"].value[0]

    def submit(self, server, spec, trace_parent):
        """Submits a spec of `gpupool get -o json` by gRPC and returns the job's id."""
        from google.protobuf import json_format
        pb, rpc = harness.stubs()("gpupool.v1.job")
        request = pb.SubmitJobRequest(request_id=trace_parent)
        json_format.ParseDict(spec, request.spec)
        with server.channel() as channel:
            return rpc.JobServiceStub(channel).SubmitJob(
                request, timeout=harness.PATIENCE,
                metadata=(("traceparent", trace_parent), ("tracestate", "a=1"))).id

    def assert_job(self, spans, caller_span, job_id):
        submit, job = self.only(spans, SUBMIT), self.only(spans, "job")
        self.assertEqual(caller_span, submit.parent_span_id.hex())
        self.assertEqual(job_id, attributes(submit)["gpupool.job.id"])
        self.assertEqual(submit.span_id, job.parent_span_id)
        self.assertEqual("a=1", job.trace_state)
        self.assertLessEqual(submit.start_time_unix_nano, job.start_time_unix_nano)
        facts = attributes(job)
        self.assertEqual(job_id, facts["gpupool.job.id"])
        self.assertEqual("succeeded", facts["gpupool.job.state"])
        attempt = self.only(spans, "attempt")
        self.assertEqual("cpu:0", attributes(attempt)["gpupool.devices"])
        self.assert_child(job, self.only(spans, "queue"))
        self.assert_child(job, attempt)
        self.assert_child(attempt, self.only(spans, "start"))
        checkpoints = [s for s in spans if s.name == "checkpoint"]
        self.assertTrue(checkpoints)
        for checkpoint in checkpoints:
            self.assert_child(attempt, checkpoint)

    def test_requests_and_jobs_join_the_traces_of_their_clients(self):
        server = self.serve(sampling="0")
        first = server.submit(harness.digits_job(steps=200, publish="true"))
        self.assertEqual("SUCCEEDED", server.wait_job(first)["state"])
        harness.wait_until(lambda: "version ready" in server.log(),
                           what="the published version")

        trace, span, parent = caller(1)
        self.infer_by_grpc(server, parent)
        self.assert_inference(self.collector.wait(trace, INFER), span)

        trace, span, parent = caller(2)
        self.infer_by_http(server, parent)
        spans = self.collector.wait(trace, INFER)
        self.assert_inference(spans, span)
        self.assertEqual("by-http",
                         attributes(self.only(spans, INFER))["gpupool.request.id"])

        trace, span, parent = caller(3)
        spec = dict(server.job(first)["spec"], name="traced")
        job = self.submit(server, spec, parent)
        self.assertEqual("SUCCEEDED", server.wait_job(job)["state"])
        self.assert_job(self.collector.wait(trace, "job"), span, job)

        with self.collector.lock:
            traces = {s.trace_id.hex() for s in self.collector.kept}
            self.assertEqual({caller(n)[0] for n in (1, 2, 3)}, traces)
            self.assertEqual([], self.collector.problems)
            resource = {a.key: a.value.string_value
                        for a in self.collector.resources[0].attributes}
        self.assertEqual("pool", resource["service.name"])
        self.assertIn('gpupool_trace_spans_total{outcome="sent"}', server.metrics())

        self.assertEqual(("OFF", "opentelemetry"), self.trace_settings(server))
        self.assertEqual(("TIMESTAMPS", "opentelemetry"),
                         self.trace_settings(server, trace_rate="1"))
        settings = f"http://127.0.0.1:{server.ports['http_port']}/v2/trace/setting"
        with urllib.request.urlopen(settings, timeout=harness.PATIENCE) as answer:
            self.assertEqual("1", json.load(answer)["trace_rate"])

        # A collector that is away delays nobody, not even the end of the server.
        self.collector.stop()
        self.infer_by_grpc(server, caller(4)[2])
        self.assertEqual(0, server.terminate())

    def test_a_collector_with_https_is_checked(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="gpupool-tls-"))
        self.addCleanup(shutil.rmtree, folder)
        subprocess.run([harness.BIN / "gpupool", "tls", "init", folder / "pki"],
                       check=True, capture_output=True, timeout=harness.PATIENCE)
        self.collector = Collector(folder / "pki")
        self.addCleanup(self.collector.stop)
        server = self.serve(sampling="1")
        server.submit(harness.digits_job(steps=1))
        harness.wait_until(lambda: "its certificate is not trusted" in server.log(),
                           what="the refusal of the certificate")
        self.assertEqual([], self.collector.kept)

        os.environ["SSL_CERT_FILE"] = str(folder / "pki/ca.pem")
        self.addCleanup(os.environ.pop, "SSL_CERT_FILE")
        server = self.serve(sampling="1")
        server.submit(harness.digits_job(steps=1))
        harness.wait_until(lambda: self.collector.kept, what="spans over TLS")

    def test_without_a_client_the_share_decides(self):
        server = self.serve(sampling="1")
        job = server.submit(harness.digits_job(steps=200))
        self.assertEqual("SUCCEEDED", server.wait_job(job)["state"])

        def trace_of_job():
            with self.collector.lock:
                return next((s.trace_id.hex() for s in self.collector.kept
                             if s.name == "job"), None)
        trace = harness.wait_until(trace_of_job, what="the span of the job")
        spans = self.collector.spans(trace)
        self.assertEqual(b"", self.only(spans, SUBMIT).parent_span_id)
        self.assert_child(self.only(spans, SUBMIT), self.only(spans, "plan"))

        trace, span, parent = caller(6)
        by_http = self.post(server, "/api/gpupool.v1.JobService/SubmitJob",
                            {"request_id": "by-http", "spec": server.job(job)["spec"]},
                            parent)
        submit = self.only(self.collector.wait(trace, SUBMIT), SUBMIT)
        self.assertEqual(span, submit.parent_span_id.hex())
        self.assertEqual(int(by_http["id"]), attributes(submit)["gpupool.job.id"])

    def test_a_trace_survives_the_death_of_the_daemon(self):
        hold = self.hold()
        server = self.serve(sampling="0")
        first = server.submit(harness.digits_job(steps=1))
        spec = server.job(first)["spec"]
        self.assertEqual("SUCCEEDED", server.wait_job(first)["state"])
        spec["training"]["steps"] = "300"
        hold.at(150)
        trace, span, parent = caller(5)
        job = self.submit(server, spec, parent)
        hold.wait()
        self.collector.wait(trace, "start")
        server.kill()
        server.start()
        hold.release()
        self.assertEqual("SUCCEEDED", server.wait_job(job)["state"])
        self.assert_job(self.collector.wait(trace, "job"), span, job)


if __name__ == "__main__":
    harness.main()
