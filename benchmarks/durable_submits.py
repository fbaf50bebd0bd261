#!/usr/bin/python3
"""How many submissions a second does a server acknowledge, each fsynced before?

    durable_submits.py BUILD_DIR

64 clients submit to a gpupoold, each with its own connection and one submission
in flight. A job that hangs fills the server's only device, so that the other jobs
wait in the queue and no training uses the cores. Client and server share the
machine. The peers run in turns in the same folder: bare SQLite, which writes rows
of the same size in transactions of 64, and the limit of the disk alone, which is
the rate of fsyncs of as many bytes times the jobs that shared a commit. Prints one
JSON line per case with the median of ROUNDS.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import time

from daemon import Daemon

ROUNDS = 5
JOBS = 12000
CLIENTS = 64
COMMITS = "gpupool_store_commit_duration_seconds_count"


def take_device(daemon):
    """Starts a job that takes all usable bytes and hangs at its first step."""
    (daemon.folder / "fault").write_text("hang 1")
    daemon.start_example("digits", epochs=10**6)
    while not (daemon.folder / "fault.done").exists():
        time.sleep(0.05)
    device = json.loads(daemon.cli("devices", "-o", "json"))["devices"][0]
    share = int(device["committed_bytes"]) / int(device["limit_bytes"])
    daemon.cli("devices", "fraction", "cpu:0", f"{share * 1.0001:.12f}")


def main(build):
    program = pathlib.Path(build) / "benchmarks/durable_submits"

    def run(*arguments):
        return json.loads(subprocess.run([program, *map(str, arguments)], check=True,
                                         stdout=subprocess.PIPE, text=True).stdout)

    rounds = {1: [], 64: []}
    for _ in range(ROUNDS):
        with Daemon(build, "--hang-timeout", "0", "--drain-grace", "1") as daemon:
            take_device(daemon)
            for specs, results in rounds.items():
                # Plans are made once and are not measured here.
                run("server", "--address", daemon.address, "--jobs", specs,
                    "--specs", specs, "--clients", 1)
                commits = daemon.metric(COMMITS)
                ours = run("server", "--address", daemon.address, "--jobs", JOBS,
                           "--specs", specs, "--clients", CLIENTS)
                ours["jobs_per_commit"] = JOBS / (daemon.metric(COMMITS) - commits)
                folder = ["--folder", daemon.folder, "--bytes"]
                ours["sqlite"] = run("sqlite", *folder, ours["row_bytes"], "--jobs", JOBS,
                                     "--group", CLIENTS)["jobs_per_second"]
                ours["fsyncs"] = run(
                    "fsync", *folder,
                    int(ours["row_bytes"] * ours["jobs_per_commit"]))["fsyncs_per_second"]
                results.append(ours)
    for specs, results in rounds.items():
        middle = {key: statistics.median(result[key] for result in results)
                  for key in results[0]}
        print(json.dumps({
            "bench": "durable-submits", "figure": "jobs/s", "clients": CLIENTS, "specs": specs,
            "ours": round(middle["jobs_per_second"]), "peer": round(middle["sqlite"]),
            "peer_is": "bare SQLite, 64 in a transaction",
            "ratio": round(middle["jobs_per_second"] / middle["sqlite"], 3),
            "all": [round(result["jobs_per_second"]) for result in results],
            "p50_ms": round(middle["p50_ms"], 2), "p99_ms": round(middle["p99_ms"], 2),
            "jobs_per_commit": round(middle["jobs_per_commit"], 1),
            "disk_allows": round(middle["fsyncs"] * middle["jobs_per_commit"]),
            "wanted": 5000}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
