#!/usr/bin/python3
"""How long do the pages of the web page wait for their first answer?

    web_pages.py BUILD_DIR

A server with JOBS jobs in its database, of which some wait and the others have
ended, gets the calls with which each page begins (server/http/web/pages), all calls
of a page at a time, each on a connection of its own. The time of a page is that of
its last answer. The peer is GET /v2/health/live on the same server, in turns: what
HTTP itself takes. Prints a JSON line per page with the medians of ROUNDS, in ms; the
target is 300 ms.
"""

import concurrent.futures
import http.client
import json
import statistics
import sys
import time

from daemon import Daemon

JOBS, ARRAYS, WAITING = 10_000, 10, 2
LAST_JOB = JOBS + ARRAYS  # arrays have ids of the same sequence
ROUNDS = 11
JOB = """
name: page
hold: true
model: {input_shape: [2], layers: [{dense: {units: 3}}]}
data: {synthetic: {kind: blobs, rows: 300}}
training: {cross_entropy: {}, sgd: {learning_rate: 0.1}, batch_size: 10, steps: 1}
array: {indices: "0-%d"}
"""
NEWEST = {"page_size": 200, "page_token": ""}
PAGES = {
    "pool": [("DeviceService/ListDevices", {}),
             ("JobService/ListJobs", {**NEWEST, "states": ["QUEUED", "BACKING_OFF"]}),
             ("JobService/ListJobs", NEWEST)],
    "jobs": [("JobService/ListJobs", {**NEWEST, "page_size": 100})],
    "jobs by name": [("JobService/ListJobs",
                      {**NEWEST, "page_size": 100, "name": "no-such-job"})],
    "job": [("JobService/GetJob", {"id": LAST_JOB // 2}),
            ("JobService/WatchJob", {"id": LAST_JOB // 2})],
    "waiting job": [("JobService/GetJob", {"id": LAST_JOB}),
                    ("JobService/ExplainJob", {"id": LAST_JOB})],
    "models": [("ModelService/ListModels", {"page_size": 1000, "page_token": ""})],
    "memory": [("DeviceService/ListDevices", {}),
               ("DeviceService/GetMemorySnapshot", {"device": "cpu:0"})],
    "usage": [("UsageService/GetUsage", {"page_size": 1000, "page_token": ""})],
}


def fill(daemon):
    """Submits the jobs as arrays that are held, and cancels most of them."""
    size = JOBS // ARRAYS
    job = daemon.folder / "job.yaml"
    job.write_text(JOB % (size - 1))
    for _ in range(ARRAYS):
        daemon.cli("submit", job)
    for array in range(ARRAYS - WAITING):
        daemon.cli("cancel", 1 + array * (size + 1))


def ask(port, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise SystemExit(f"{path}: {answer.status} {text[:300]}")
    connection.close()


def seconds_of(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def main(build):
    with Daemon(build) as daemon, concurrent.futures.ThreadPoolExecutor() as pool:
        fill(daemon)
        port = daemon.ports["http_port"]

        def show(calls):
            list(pool.map(lambda call: ask(port, "POST", f"/api/gpupool.v1.{call[0]}",
                                           json.dumps(call[1])), calls))

        ours = {page: [] for page in PAGES}
        peer = []
        for _ in range(ROUNDS):
            for page, calls in PAGES.items():
                ours[page].append(seconds_of(lambda calls=calls: show(calls)))
            peer.append(seconds_of(lambda: ask(port, "GET", "/v2/health/live")))
        health = statistics.median(peer) * 1e3
        for page, times in ours.items():
            mine = statistics.median(times) * 1e3
            print(json.dumps({"bench": "web-pages", "case": page, "ours": round(mine, 1),
                              "peer": round(health, 1), "ratio": round(mine / health, 1),
                              "most": round(max(times) * 1e3, 1), "unit": "ms",
                              "jobs": JOBS}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
