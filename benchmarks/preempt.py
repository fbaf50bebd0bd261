#!/usr/bin/python3
"""How long does it take from the preemption of a job until its device is free?

    preempt.py BUILD_DIR

A perceptron with a checkpoint of 305 MB (weights and Adam's state) trains on a
CPU device. Then a perceptron of a higher priority is submitted. The times are
those of the server's events, which are all on disk: `preempted by` of the first
job, STARTING and the first step of the second. Before the device is free, the
running step ends and the checkpoint is copied or written (`save`). The peer is the
same server on a host without room for a copy of the checkpoint: the checkpoint is
written to disk before the device is free. Both take turns. Prints one JSON line
per figure with the median of ROUNDS.
"""

import datetime
import json
import pathlib
import re
import statistics
import subprocess
import sys
import time

from daemon import Daemon

ROUNDS = 5
JOB = """
name: {name}
priority: {priority}
model:
  input_shape: [64]
  layers:
    - dense: {{units: 5000}}
    - relu
    - dense: {{units: 5000}}
    - relu
    - dense: {{units: 10}}
data:
  dataset: digits
training:
  cross_entropy: {{}}
  adam: {{learning_rate: 0.001}}
  batch_size: 1
  steps: 100000
  seed: 1
  report_every_steps: 1
"""


def seconds_of(event):
    whole, fraction = re.fullmatch(r"(.*?)(\.\d+)?Z", event["time"]).groups()
    time_of = datetime.datetime.fromisoformat(whole + "+00:00")
    return time_of.timestamp() + float(fraction or 0)


class Round:
    def __init__(self, daemon):
        self.daemon = daemon

    def json(self, *arguments):
        return json.loads(self.daemon.cli(*arguments, "-o", "json"))

    def submit(self, name, priority):
        path = self.daemon.folder / f"{name}.yaml"
        path.write_text(JOB.format(name=name, priority=priority))
        return self.json("submit", path)["id"]

    def wait(self, job, reached):
        while not reached(self.json("get", job)):
            time.sleep(0.05)

    def events(self, job):
        """Of a job that has been cancelled."""
        try:
            lines = self.daemon.cli("watch", job, "-o", "json")
        except subprocess.CalledProcessError as failed:  # since it was cancelled
            lines = failed.stdout
        return [json.loads(line) for line in lines.splitlines()]

    def run(self, room):
        fault = self.daemon.folder / "fault"
        low = self.submit("low", 0)
        self.wait(low, lambda job: int(job.get("progress", {}).get("step", 0)) >= 5)
        if not room:
            fault.write_text("no-room 0")
        high = self.submit("high", 5)
        self.wait(high, lambda job: int(job.get("progress", {}).get("step", 0)) >= 1)
        self.wait(low, lambda job: job["state"] == "QUEUED")
        if (self.daemon.folder / "fault.done").exists() == room:
            raise SystemExit("the host had no room for a copy of the checkpoint, or had it in "
                             "a round that is to be without")
        (self.daemon.folder / "fault.done").unlink(missing_ok=True)
        for job in (low, high):
            self.daemon.cli("cancel", job)
            self.wait(job, lambda job: job["state"] == "CANCELLED")
        left, came = self.events(low), self.events(high)

        def when(events, happened):
            return next(seconds_of(event) for event in events if happened(event))
        order = when(left, lambda event: "preempted by" in event.get("log", {}).get("text", ""))
        free = when(came, lambda event: event.get("state_change", {}).get("to") == "STARTING")
        step = when(came, lambda event: "progress" in event)
        written = next(event for event in left if "checkpoint" in event)
        return {"free_ms": 1e3 * (free - order),
                "save_ms": 1e3 * written["checkpoint"]["save_seconds"],
                "next_step_ms": 1e3 * (step - order),
                "on_disk_ms": 1e3 * (seconds_of(written) - order)}


def main(build):
    rounds = {True: [], False: []}
    with Daemon(build, "--order", "priority", "--min-run", "0") as daemon:
        daemon.cli("datasets", "upload", "digits", "examples/data/digits.csv.gz")
        one = Round(daemon)
        probe = daemon.folder / "probe.yaml"
        probe.write_text(JOB.format(name="probe", priority=0))
        need = int(one.json("plan", probe)["plan"]["training"]["peak"])
        limit = int(one.json("devices")["devices"][0]["limit_bytes"])
        if 1.5 * need < limit:  # all of the device is one job's
            daemon.cli("devices", "fraction", "cpu:0", f"{1.5 * need / limit:.9f}")
        for _ in range(ROUNDS):
            for room in rounds:
                rounds[room].append(one.run(room))
    for figure in ("free_ms", "save_ms", "next_step_ms", "on_disk_ms"):
        ours, peer = (statistics.median(result[figure] for result in rounds[room])
                      for room in (True, False))
        print(json.dumps({"bench": "preempt", "figure": figure, "ours": round(ours, 1),
                          "peer": round(peer, 1), "peer_is": "writing straight to disk",
                          "ratio": round(ours / peer, 3),
                          "all": [round(result[figure], 1) for result in rounds[True]],
                          "all_peer": [round(result[figure], 1) for result in rounds[False]]}),
              flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
