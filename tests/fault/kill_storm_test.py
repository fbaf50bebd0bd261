#!/usr/bin/env python3
"""kill -9 of the daemon at random moments, while clients submit, cancel and get.

Afterwards every acknowledged job is there exactly once, no id was used twice,
and each job's history could have been that of a server that never died. No job
ends by itself, so that what happens to them is what clients do. GPUPOOL_KILLS sets the number of kills, GPUPOOL_KILL_SEED the seed,
which is printed.
"""
import collections
import math
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "e2e"), str(HERE)]
import harness  # noqa: E402
from linearizability import Call, linearizable  # noqa: E402

KILLS = int(os.environ.get("GPUPOOL_KILLS", "20"))
SEED = int(os.environ.get("GPUPOOL_KILL_SEED", random.SystemRandom().randrange(2**32)))
CLIENTS = 4


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Daemon:
    """Starts and kills gpupoold at a fixed port."""

    def __init__(self, server):
        self.port_file = server.state / "ports.json"
        self.log = server.state / "gpupoold.log"
        self.command = [harness.BIN / "gpupoold", "--state-dir", server.state,
                        *server.arguments,
                        "--http-port", "0", "--metrics-port", "0",
                        "--port-file", self.port_file]

    def start(self):
        self.port_file.unlink(missing_ok=True)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)

    def wait(self):
        def serving():
            assert self.process.poll() is None, "gpupoold ended by itself"
            return self.port_file.exists()
        harness.wait_until(serving, 120, "gpupoold to serve")

    def kill(self):
        assert self.process.poll() is None, "gpupoold ended by itself"
        self.process.kill()
        self.process.wait()


class Client(threading.Thread):
    """Takes the keys that all clients take, in the same order, each with a few
    random calls, so that several of them meet at a key."""

    def __init__(self, storm, number):
        super().__init__()
        self.storm, self.random = storm, random.Random(SEED * 100 + number)
        self.error = None

    def run(self):
        try:
            self.connect()
            key = 0
            while not self.storm.stop.is_set():
                key = max(key + 1, self.storm.newest_key())
                self.take(key)
        except BaseException as error:  # the test fails with it
            self.error = error

    def connect(self):
        """Returns a new channel, which tries at once. An old one would wait."""
        import grpc
        channel = grpc.insecure_channel(f"127.0.0.1:{self.storm.port}",
                                        [("grpc.use_local_subchannel_pool", 1)])
        self.stub = self.storm.rpc.JobServiceStub(channel)

    def take(self, key):
        """Submits until answered, then cancels most jobs and gets some."""
        pb = self.storm.pb
        request = pb.SubmitJobRequest(spec=self.storm.spec, request_id=f"key-{key}")
        job = None
        while job is None and not self.storm.stop.is_set():
            job = self.call("submit", key, 0, lambda: self.stub.SubmitJob(request, timeout=5))
        if job is None:
            return
        for _ in range(self.random.randrange(4)):
            if self.random.random() < 0.5:
                self.call("cancel", key, job.id, lambda: self.stub.CancelJob(
                    pb.CancelJobRequest(id=job.id), timeout=5))
            else:
                self.call("get", key, job.id, lambda: self.stub.GetJob(
                    pb.GetJobRequest(id=job.id), timeout=5))

    def call(self, kind, key, job, send):
        import grpc
        begin = time.monotonic()
        try:
            answer = send()
        except grpc.RpcError as error:
            if error.code() not in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED,
                                    grpc.StatusCode.DEADLINE_EXCEEDED):
                raise
            nobody_took_it = "failed to connect" in error.details()
            self.storm.stop.wait(0.02)
            self.connect()
            if nobody_took_it:
                return None
            self.storm.note(key, Call(kind, begin, math.inf, job))
            return None
        state = self.storm.state(answer)
        self.storm.note(key, Call(kind, begin, time.monotonic(), answer.id, state))
        return answer


class KillStorm(harness.TestCase):
    def setUp(self):
        self.lock, self.stop = threading.Lock(), threading.Event()
        self.calls, self.top = collections.defaultdict(list), 0

    def note(self, key, call):
        with self.lock:
            self.calls[key].append(call)
            self.top = max(self.top, key)

    def acknowledged(self):
        """Returns how many jobs were acknowledged so far."""
        with self.lock:
            return len({call.job for calls in self.calls.values() for call in calls
                        if call.kind == "submit" and call.end != math.inf})

    def state(self, job):
        """Returns QUEUED or CANCELLED, whether or not a worker has acted on it yet."""
        name = self.pb.JobState.Name(job.state)
        if name in ("STARTING", "RUNNING", "BACKING_OFF"):
            return "QUEUED"
        return "CANCELLED" if name == "CANCELLING" else name

    def newest_key(self):
        with self.lock:
            return self.top

    def test_no_acknowledged_job_is_lost_or_made_twice(self):
        from google.protobuf import json_format
        print(f"GPUPOOL_KILL_SEED={SEED} GPUPOOL_KILLS={KILLS}")
        chance = random.Random(SEED)
        self.port = free_port()
        server = self.start("--devices", "cpu:1", "--device-memory", "24MiB",
                            "--grpc-port", str(self.port))
        server.upload_digits()
        first = server.submit(harness.digits_job(name="first", steps=10**8,
                                                 checkpoint_every_steps=0,
                                                 report_every_steps=1000))
        server.wait_step(first, 1)
        load = harness.stubs()
        self.pb, self.rpc = load("gpupool.v1.job")
        self.spec = self.pb.JobSpec()
        json_format.ParseDict(server.job(first)["spec"], self.spec)
        self.spec.name = "one-of-many"
        server.kill()

        daemon = Daemon(server)
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.kill())
        clients = [Client(self, i) for i in range(CLIENTS)]
        daemon.start()
        for client in clients:
            client.start()
        starts, begin = [], time.monotonic()
        for kill in range(KILLS):
            if kill > 0 and kill % 500 == 0:
                print(f"{kill} kills in {time.monotonic() - begin:.0f} s", flush=True)
            if chance.random() < 0.2:  # while it starts
                harness.let_others_run(chance.uniform(0, 0.1))
            else:
                started = time.monotonic()
                daemon.wait()
                starts.append(time.monotonic() - started)
                harness.let_others_run(chance.uniform(0, 0.2))
            daemon.kill()
            daemon.start()
        daemon.wait()
        harness.wait_until(lambda: self.acknowledged() > KILLS or any(
            client.error for client in clients), what="enough acknowledged jobs")
        self.stop.set()
        for client in clients:
            client.join()
        seconds = time.monotonic() - begin
        for client in clients:
            if client.error is not None:
                raise client.error

        stored = self.all_jobs()
        by_request = collections.Counter(job.request_id for job in stored)
        acknowledged = {(f"key-{key}", call.job) for key, calls in self.calls.items()
                        for call in calls if call.kind == "submit" and call.end != math.inf}
        there = {(job.request_id, job.id) for job in stored}
        lost = acknowledged - there
        twice = [request for request, count in by_request.items() if count > 1]
        self.judge_final(stored)
        odd = [key for key, calls in self.calls.items() if not linearizable(calls)]
        unanswered = sum(call.end == math.inf for calls in self.calls.values() for call in calls)
        print(f"{KILLS} kills in {seconds:.0f} s; start p50 {statistics.median(starts):.3f} s, "
              f"longest {max(starts):.3f} s; {len(acknowledged)} jobs acknowledged, "
              f"{sum(map(len, self.calls.values()))} calls of which {unanswered} were never "
              f"answered; lost {len(lost)}, twice {len(twice)}, histories that no single "
              f"server has {len(odd)}")
        self.assertEqual(set(), lost)
        self.assertEqual([], twice)
        for key in odd:
            print(key, *sorted(self.calls[key], key=lambda call: call.begin), sep="\n  ")
        self.assertEqual([], odd)
        self.assertGreater(len(acknowledged), KILLS)
        self.assertEqual(1, server_attempt(stored, "first"), "the running job went on")

    def all_jobs(self):
        import grpc
        stub = self.rpc.JobServiceStub(grpc.insecure_channel(f"127.0.0.1:{self.port}"))
        jobs, token = [], ""
        while True:
            page = stub.ListJobs(self.pb.ListJobsRequest(page_size=1000, page_token=token),
                                 timeout=60)
            jobs.extend(page.jobs)
            token = page.next_page_token
            if not token:
                return jobs

    def judge_final(self, stored):
        """Adds the final stored state to each history as one more answer."""
        now = time.monotonic()
        for job in stored:
            if job.request_id.startswith("key-"):
                self.note(int(job.request_id[4:]),
                          Call("get", now, now + 1, job.id,
                               self.state(job)))


def server_attempt(jobs, name):
    return next(job.attempt for job in jobs if job.spec.name == name)


if __name__ == "__main__":
    harness.main()
