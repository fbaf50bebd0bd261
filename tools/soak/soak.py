#!/usr/bin/python3
"""Runs a server under a modest load, samples what it uses, and judges what grew.

    soak.py --bin DIR MINUTES [--out DIR] [--every SECONDS] [--seed N] [--rate N]

Writes into the folder:

    samples.jsonl  one JSON object for each sample (sample.py)
    soak.svg       the samples as a picture
    verdict.json   faults, notes, the growth of each series, counts of operations
    gpupoold.log, worker-*.log

Exits with 1 when there are faults, which it names, and with 2 when it cannot run.
"""

import argparse
import dataclasses
import json
import pathlib
import shutil
import signal
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
import harness  # noqa: E402
import judge  # noqa: E402
import picture  # noqa: E402
import sample  # noqa: E402
from load import VICTIM, Load  # noqa: E402

# Kept things are few, so that they are all there before the warm-up ends.
FLAGS = ("--devices", "cpu:2", "--keep-jobs", "100", "--keep-job-events", "50",
         "--audit-file-bytes", "64KiB", "--audit-files", "4", "--keep-uploads", "30")
MOST_MINUTES = 7 * 24 * 60


def arguments(words):
    parser = argparse.ArgumentParser(prog="./dev soak", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("minutes", type=float, metavar="MINUTES")
    parser.add_argument("--bin", type=pathlib.Path, required=True,
                        help="folder of the programs")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "build/soak")
    parser.add_argument("--every", type=float, help="seconds between samples; by default "
                        "10, and 60 in a run of at least an hour")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=4, help="operations a second; "
                        "by default 4")
    given = parser.parse_args(words)
    if given.every is None:
        given.every = 60 if given.minutes >= 60 else 10
    for name, low, high in (("minutes", 0.05, MOST_MINUTES), ("every", 0.1, 3600),
                            ("rate", 0.1, 100)):
        value = getattr(given, name)
        if not low <= value <= high:
            parser.error(f"{name} is {value}; it must be {low} to {high}")
    if not (given.bin / "gpupoold").exists():
        parser.error(f"there is no {given.bin}/gpupoold; ./dev build makes it")
    return given


class Sampler:
    """Takes samples of a server on a thread, until it is stopped."""

    def __init__(self, server, load, every, path):
        self.server, self.load, self.every = server, load, every
        self.samples, self.error = [], None
        self.path, self.stopped = path, threading.Event()
        self.begin = time.monotonic()
        self.thread = threading.Thread(target=self.run)

    def run(self):
        try:
            with open(self.path, "w") as out:
                while not self.stopped.wait(
                        max(0, self.begin + len(self.samples) * self.every
                            - time.monotonic())):
                    self.samples.append(self.take())
                    print(json.dumps(self.samples[-1]), file=out, flush=True)
                    if self.server.process.poll() is not None:
                        self.load.stopped.set()  # nobody answers any more
        except OSError as error:
            self.error = error

    def take(self):
        seconds, operations = time.monotonic() - self.begin, self.load.operations
        processes = {"gpupoold": self.server.process.pid, **self.server.worker_pids()}
        return {"seconds": round(seconds, 3), "operations": operations,
                **sample.take(processes, self.server.state)}

    def stop(self):
        self.stopped.set()
        self.thread.join()


def wait_for_jobs(load):
    """Waits until all acknowledged jobs have ended, which judges them. Returns what is
    wrong with those that do not."""
    for job in sorted(load.jobs):
        try:
            harness.wait_until(lambda job=job: load.has_ended(job), 300,
                               f"acknowledged job {job} to end")
        except Exception as problem:
            return [f"{len(load.jobs)} acknowledged jobs have not ended: {problem}"]
    return []


def log_faults(server, load):
    """Returns the lines of the logs with errors that no kill of ours explains."""
    logs = [server.state / "gpupoold.log", *sorted(server.state.glob("workers/*/log*"))]
    return [f"{path.relative_to(server.state)}: {line}" for path in logs
            for line in judge.error_lines(path.read_text(errors="replace"),
                                          load.killed_pids, (VICTIM,))][:20]


def keep_logs(server, out):
    shutil.copy(server.state / "gpupoold.log", out / "gpupoold.log")
    for path in server.state.glob("workers/*/log"):
        shutil.copy(path, out / f"worker-{path.parent.name}.log")


def soak(server, given):
    """Runs the load and returns (samples, load, seconds, faults)."""
    server.start()
    load = Load(server, given.seed, given.rate)
    load.prepare()
    sampler = Sampler(server, load, given.every, given.out / "samples.jsonl")
    sampler.thread.start()
    faults = []
    try:
        load.run(60 * given.minutes)
    except KeyboardInterrupt:
        load.stopped.set()
        print("stopping early", file=sys.stderr)
    finally:
        seconds = time.monotonic() - sampler.begin
        sampler.stop()
    if sampler.error:
        faults.append(f"sampling stopped: {sampler.error}")
    if server.process.poll() is not None:
        faults.append(f"gpupoold ended with {server.process.returncode}: "
                      + server.log()[-2000:])
        return sampler.samples, load, seconds, faults
    faults += wait_for_jobs(load)
    load.channel.close()
    code = server.terminate()
    if code != 0:
        faults.append(f"gpupoold ended with {code} when it was drained")
    return sampler.samples, load, seconds, faults


def verdict_of(samples, load, seconds, faults):
    growths, grown, notes = judge.judge_growth(samples, seconds, (VICTIM,))
    faults = grown + faults + load.faults
    if load.more_faults:
        faults.append(f"{load.more_faults} more requests went wrong")
    for name, count in load.refused.items():
        if count >= 10 and not load.answered[name]:
            faults.append(f"all {count} operations {name} were refused")
    return {"verdict": "FAILED" if faults else "PASSED", "faults": faults, "notes": notes,
            "seconds": round(seconds, 1), "operations": load.operations,
            "jobs": load.acknowledged, "kills": len(load.killed_pids),
            "answered": dict(sorted(load.answered.items())),
            "refused": dict(sorted(load.refused.items())),
            "growth": [dataclasses.asdict(growth) for growth in growths]}


def report(verdict, out):
    for growth in verdict["growth"]:
        print(f"{growth['name']:<24} {growth['grown']:>14,.0f} of "
              f"{growth['allowed']:>14,.0f} allowed {growth['per_hour']:>16,.0f} an hour "
              f"{growth['per_operation']:>10,.1f} an operation")
    print(f"{verdict['operations']} operations, {verdict['jobs']} jobs, "
          f"{verdict['kills']} kills of a worker in {verdict['seconds']} s; "
          f"{sum(verdict['refused'].values())} operations were refused in words")
    for note in verdict["notes"]:
        print("note:", note)
    for fault in verdict["faults"]:
        print("fault:", fault)
    print(f"{verdict['verdict']}: {out}/verdict.json, {out}/soak.svg")


def interrupt(*_):
    raise KeyboardInterrupt


def main(words):
    given = arguments(words)
    given.out.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, interrupt)
    harness.BIN = given.bin.resolve()
    server = harness.Server(tempfile.mkdtemp(prefix="gpupool-soak-"), FLAGS)
    try:
        samples, load, seconds, faults = soak(server, given)
        keep_logs(server, given.out)
        verdict = verdict_of(samples, load, seconds, faults + log_faults(server, load))
    finally:
        server.stop()
        shutil.rmtree(server.state, ignore_errors=True)
    (given.out / "soak.svg").write_text(
        picture.picture(samples, seconds, judge.warm_up_of(seconds)))
    (given.out / "verdict.json").write_text(json.dumps(verdict, indent=1) + "\n")
    report(verdict, given.out)
    return 1 if verdict["faults"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
