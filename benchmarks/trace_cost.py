#!/usr/bin/python3
"""What do traces cost a served model?

    trace_cost.py BUILD_DIR

Calls ModelInfer of the digits model with 1, 8 and 64 requests in flight on a server
that sends traces to a collector, and on one that does not, in turns in the same
run. Traced are 1 % of the requests, and all. The collector, in this process, reads
what it is sent and keeps nothing. Prints JSON lines with the medians of ROUNDS; a
ratio of requests/s of 0.9 is a cost of 10 %. The case "off" has no traces on either
side: how far its ratios are from 1 is what the machine cannot tell apart.
"""

import contextlib
import http.server
import pathlib
import subprocess
import sys
import threading

from daemon import HERE, Daemon

ROUNDS = 9
SECONDS = 1


class Sink(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def serve(daemon):
    daemon.cli("run", "examples/digits.yaml", "--data", "examples/data/digits.csv.gz")
    daemon.cli("models", "load", "digits", "--wait")


def measure(build, name, ours, peer):
    subprocess.run(
        [pathlib.Path(build) / "benchmarks/infer_roundtrip", "--bench", "trace-cost",
         "--case", f"{name}-", "--address", ours.address, "--peer", peer.address,
         "--model", "digits", "--rounds", str(ROUNDS), "--seconds", str(SECONDS)],
        check=True, cwd=HERE.parent)


def main(build):
    sink = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    threading.Thread(target=sink.serve_forever, daemon=True).start()
    collector = f"http://127.0.0.1:{sink.server_port}"
    cases = {"off": ()}
    for name, share in (("1%", "0.01"), ("100%", "1")):
        cases[name] = ("--trace-endpoint", collector, "--trace-sampling", share)
    with contextlib.ExitStack() as stack:
        plain = stack.enter_context(Daemon(build))
        serve(plain)
        for name, flags in cases.items():
            with Daemon(build, *flags) as ours:
                serve(ours)
                measure(build, name, ours, plain)


if __name__ == "__main__":
    main(sys.argv[1])
