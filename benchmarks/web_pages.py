#!/usr/bin/python3
"""How long do the pages of the web page wait for their first answer?

    web_pages.py BUILD_DIR

A server with JOBS jobs in its database, of which some wait and the others have
ended, gets the calls with which each page begins (server/http/web/pages), all calls
of a page at a time, each on a connection of its own. The time of a page is that of
its last answer. The peer is GET /v2/health/live on the same server, in turns: what
HTTP itself takes. Prints a JSON line per page with the medians of ROUNDS, in ms; the
target is 300 ms.

This is done twice. gpupoold has one device, since it starts a process for each. Then
a server of the same parts has DEVICES devices (many_devices.cc), whose workers are a
stand-in: it sends their heartbeats, and a job runs on each of them. It has no
inference service, so there the peer is GET /, the first file of the web page.
"""

import concurrent.futures
import http.client
import json
import pathlib
import statistics
import sys
import time

from daemon import Daemon

JOBS, ARRAYS, WAITING = 10_000, 10, 2
LAST_JOB = JOBS + ARRAYS  # arrays have ids of the same sequence
WAITING_JOB = LAST_JOB + 1
DEVICES = JOBS // ARRAYS  # so many jobs of an array run, one on each
JOB_BYTES = 40 << 30      # of the 64 GiB of a device, so that two do not fit
PATIENCE = 120            # seconds until all of them run
ROUNDS = 11
JOB = """
name: page
hold: %s
model: {input_shape: [2], layers: [{dense: {units: 3}}]}
data: {synthetic: {kind: blobs, rows: 300}}
training: {cross_entropy: {}, sgd: {learning_rate: 0.1}, batch_size: 10, steps: 1}
"""
ARRAY = 'array: {indices: "0-%d"}\n'
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
    "waiting job": [("JobService/GetJob", {"id": WAITING_JOB}),
                    ("JobService/ExplainJob", {"id": WAITING_JOB})],
    "models": [("ModelService/ListModels", {"page_size": 1000, "page_token": ""})],
    "memory": [("DeviceService/ListDevices", {}),
               ("DeviceService/GetMemorySnapshot", {"device": None})],
    "usage": [("UsageService/GetUsage", {"page_size": 1000, "page_token": ""})],
}


class OneDevice(Daemon):
    devices, first_device, peer, running = 1, "cpu:0", "/v2/health/live", 0


class ManyDevices(Daemon):
    """Not gpupoold, but many_devices.cc."""
    devices, first_device, peer, running = DEVICES, "cuda:0", "/", 1  # arrays that run

    def __init__(self, build):
        super().__init__(build)
        self.program = pathlib.Path(build) / "benchmarks/many_devices"

    def command(self, port_file):
        return [self.program, self.folder, str(DEVICES), str(JOB_BYTES)]


def fill(server):
    """Submits the jobs as arrays. Those of the first ones run. The others are held,
    and most of them are cancelled. The last job waits, for a device if all are
    taken."""
    size = JOBS // ARRAYS
    job = server.folder / "job.yaml"
    for array in range(ARRAYS):
        held = "false" if array < server.running else "true"
        job.write_text(JOB % held + ARRAY % (size - 1))
        server.cli("submit", job)
        if array < server.running:
            await_jobs(server)
    for array in range(server.running, ARRAYS - WAITING):
        server.cli("cancel", 1 + array * (size + 1))
    job.write_text(JOB % ("false" if server.running else "true"))
    server.cli("submit", job)


def await_jobs(server):
    """Waits until each device has a job."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        pool = call(server, "DeviceService/ListDevices", {})
        if all(device["job_ids"] for device in pool["devices"]):
            return
        time.sleep(0.1)
    raise SystemExit(f"not every device has a job after {PATIENCE} s")


def call(server, method, message):
    return json.loads(ask(server.ports["http_port"], "POST",
                          f"/api/gpupool.v1.{method}", json.dumps(message)))


def ask(port, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    text = answer.read()
    if answer.status != 200:
        raise SystemExit(f"{path}: {answer.status} {text[:300]}")
    connection.close()
    return text


def seconds_of(work):
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def measure(server, pool):
    port = server.ports["http_port"]

    def show(calls):
        list(pool.map(lambda one: ask(port, "POST", f"/api/gpupool.v1.{one[0]}", one[1]),
                      calls))

    pages = {page: [(method, json.dumps({key: server.first_device if key == "device"
                                         else value for key, value in message.items()}))
                    for method, message in calls] for page, calls in PAGES.items()}
    ours = {page: [] for page in pages}
    peer = []
    for _ in range(ROUNDS):
        for page, calls in pages.items():
            ours[page].append(seconds_of(lambda calls=calls: show(calls)))
        peer.append(seconds_of(lambda: ask(port, "GET", server.peer)))
    least = statistics.median(peer) * 1e3
    for page, times in ours.items():
        mine = statistics.median(times) * 1e3
        print(json.dumps({"bench": "web-pages", "case": page, "ours": round(mine, 1),
                          "peer": round(least, 1), "ratio": round(mine / least, 1),
                          "most": round(max(times) * 1e3, 1), "unit": "ms",
                          "jobs": JOBS, "devices": server.devices}), flush=True)


def main(build):
    for make in (OneDevice, ManyDevices):
        with make(build) as server, concurrent.futures.ThreadPoolExecutor() as pool:
            fill(server)
            measure(server, pool)


if __name__ == "__main__":
    main(sys.argv[1])
