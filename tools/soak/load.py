"""What a soak asks of a server: operations from shuffled decks, at a modest rate.

The order of the operations follows from the seed alone. Four threads carry them out, so
how they interleave does not.
"""

import collections
import concurrent.futures
import hashlib
import itertools
import json
import os
import random
import signal
import struct
import threading
import time
import urllib.error
import urllib.request

import grpc
import harness

# One deck: how often each operation is in it.
DECK = {"train": 6, "train_and_watch": 3, "publish": 1, "prune": 1, "cancel": 2,
        "repeat": 2, "infer": 12, "infer_http": 5, "reload": 2, "break_watch": 3,
        "upload": 1, "break_upload": 2, "resume_upload": 1, "read": 4, "scrape": 1,
        "be_refused": 3, "kill_worker": 1}
THREADS = 4
DEADLINE = 60  # seconds; a request without an answer until then is a fault
MODEL, DATASET, VICTIM = "soak", "soak", "cpu:1"
KEPT_VERSIONS = 2
BETWEEN_KILLS = 10  # seconds; the pool would leave a worker alone that ends again and again
CHECKED_JOBS = 20  # by each `read`
MOST_FAULTS = 50  # sentences that are kept; further ones are counted

# Codes by which a server refuses in words. Others, such as INTERNAL, are faults.
REFUSALS = {grpc.StatusCode[name] for name in (
    "INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "FAILED_PRECONDITION",
    "RESOURCE_EXHAUSTED", "UNAVAILABLE", "ABORTED", "OUT_OF_RANGE")}


class Load:
    """Asks a server until it is told to stop, and keeps what was wrong."""

    def __init__(self, server, seed, rate):
        self.server, self.rate = server, rate
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.operations = 0
        self.answered, self.refused = collections.Counter(), collections.Counter()
        self.faults, self.more_faults = [], 0
        # Acknowledged jobs whose end was not seen: id -> whether they may be cancelled.
        self.jobs, self.acknowledged = {}, 0
        self.killed_pids, self.last_kill = [], -float("inf")
        self.stopped = threading.Event()
        self.file = harness.DIGITS.read_bytes()
        self.load_stubs()

    def load_stubs(self):
        load = harness.stubs()
        self.channel = self.server.channel()
        self.job_pb, job_rpc = load("gpupool.v1.job")
        self.data_pb, self.data_rpc = load("gpupool.v1.dataset")
        self.model_pb, model_rpc = load("gpupool.v1.model")
        self.device_pb, self.device_rpc = load("gpupool.v1.device")
        self.upload_pb, upload_rpc = load("gpupool.v1.upload")
        self.infer_pb, infer_rpc = load("inference.grpc_service")
        self.job_rpc = job_rpc
        self.job_stub = job_rpc.JobServiceStub(self.channel)
        self.data_stub = self.data_rpc.DatasetServiceStub(self.channel)
        self.model_stub = model_rpc.ModelServiceStub(self.channel)
        self.device_stub = self.device_rpc.DeviceServiceStub(self.channel)
        self.upload_stub = upload_rpc.UploadServiceStub(self.channel)
        self.infer_stub = infer_rpc.GRPCInferenceServiceStub(self.channel)

    def prepare(self):
        """Uploads the data, trains the model that is served, and loads it."""
        self.server.upload_digits(DATASET)
        first = self.server.submit(harness.digits_job(
            MODEL, steps=60, publish="true", dataset=DATASET, checkpoint_every_steps=30,
            max_attempts=10))
        self.acknowledge(first)
        self.server.wait_job(first)
        self.spec = self.job_stub.GetJob(self.job_pb.GetJobRequest(id=first),
                                         timeout=DEADLINE).spec
        self.layout = self.data_stub.GetDataset(
            self.data_pb.GetDatasetRequest(name=DATASET), timeout=DEADLINE).layout
        self.server.cli("models", "load", MODEL, "--wait")

    def run(self, seconds):
        """Starts operations for so many seconds, or until `stopped` is set, and
        returns when all of them have ended."""
        end = time.monotonic() + seconds
        free = threading.Semaphore(THREADS)
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            while not self.stopped.is_set() and time.monotonic() < end:
                deck = [name for name, count in DECK.items() for _ in range(count)]
                self.random.shuffle(deck)
                for name in deck:
                    # Drawn here, since the threads come in any order.
                    number = self.random.randrange(1 << 62)
                    pause = self.random.expovariate(self.rate)
                    if self.stopped.wait(max(0, min(pause, end - time.monotonic()))) or \
                            time.monotonic() >= end:
                        break
                    free.acquire()
                    self.operations += 1
                    pool.submit(self.carry_out, name, number).add_done_callback(
                        lambda _: free.release())

    def carry_out(self, name, number):
        try:
            getattr(self, name)(random.Random(number))
            with self.lock:
                self.answered[name] += 1
        except grpc.RpcError as error:
            self.judge_refusal(name, error)
        except urllib.error.HTTPError as error:
            self.judge_http_refusal(name, error)
        except Exception as error:  # a defect of the server or of this program
            self.fault(f"{name}: {type(error).__name__}: {error}")

    def judge_refusal(self, name, error):
        code, words = error.code(), error.details()
        if code not in REFUSALS or not words:
            self.fault(f"{name}: {code.name}: {words or 'no words'}")
            return
        with self.lock:
            self.refused[name] += 1

    def judge_http_refusal(self, name, error):
        body = error.read()
        try:
            words = json.loads(body)["error"]
        except (ValueError, KeyError, TypeError):
            words = ""
        if not words or error.code == 500:
            self.fault(f"{name}: HTTP {error.code}: {body[:200]!r}")
            return
        with self.lock:
            self.refused[name] += 1

    def fault(self, words):
        with self.lock:
            if len(self.faults) < MOST_FAULTS:
                self.faults.append(words)
            else:
                self.more_faults += 1

    # ------------------------------------------------------------- training

    def submit(self, numbers, steps=None, publish=False, may_cancel=False):
        """Submits a job and returns (request, job). It is one of 12: equal jobs have
        equal weights, and the server keeps these once."""
        spec = self.job_pb.JobSpec()
        spec.CopyFrom(self.spec)
        spec.training.seed = numbers.randrange(1, 5)
        spec.training.steps = steps or numbers.choice((20, 40, 60))
        spec.publish.on_success = publish
        request = self.job_pb.SubmitJobRequest(
            request_id=f"soak-{numbers.randrange(1 << 62):x}", spec=spec)
        job = self.job_stub.SubmitJob(request, timeout=DEADLINE)
        self.acknowledge(job.id, may_cancel)
        return request, job

    def acknowledge(self, job, may_cancel=False):
        with self.lock:
            self.jobs[job] = may_cancel
            self.acknowledged += 1

    def has_ended(self, job):
        """Returns whether an acknowledged job has ended, and judges its end. One that
        is lost has ended, too."""
        try:
            found = self.job_stub.GetJob(self.job_pb.GetJobRequest(id=job),
                                         timeout=DEADLINE)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.NOT_FOUND:
                raise
            self.fault(f"acknowledged job {job} is lost: {error.details()}")
            self.jobs.pop(job, None)
            return True
        state = self.job_pb.JobState.Name(found.state)
        if state not in harness.TERMINAL:
            return False
        with self.lock:
            may_cancel = self.jobs.pop(job, True)
        if state != "SUCCEEDED" and not (state == "CANCELLED" and may_cancel):
            self.fault(f"acknowledged job {job} is {state}: {found.error.message}")
        return True

    def train(self, numbers):
        self.submit(numbers)

    def publish(self, numbers):
        self.submit(numbers, publish=True)

    def train_and_watch(self, numbers):
        _, job = self.submit(numbers)
        last = 0
        for event in self.job_stub.WatchJob(self.job_pb.WatchJobRequest(id=job.id),
                                            timeout=DEADLINE):
            if event.sequence <= last:
                self.fault(f"job {job.id}: event {event.sequence} after event {last}")
            last = event.sequence

    def cancel(self, numbers):
        _, job = self.submit(numbers, steps=100000, may_cancel=True)
        self.job_stub.CancelJob(self.job_pb.CancelJobRequest(id=job.id), timeout=DEADLINE)

    def repeat(self, numbers):
        request, job = self.submit(numbers)
        again = self.job_stub.SubmitJob(request, timeout=DEADLINE)
        if again.id != job.id:
            self.fault(f"request {request.request_id} made jobs {job.id} and {again.id}")

    # -------------------------------------------------------------- serving

    def infer(self, numbers):
        request = self.infer_pb.ModelInferRequest(model_name=MODEL)
        rows = numbers.randrange(1, 9)
        request.inputs.add(name="input", datatype="FP32", shape=[rows, 1, 8, 8])
        values = [numbers.randrange(17) for _ in range(rows * 64)]
        request.raw_input_contents.append(struct.pack(f"<{rows * 64}f", *values))
        answer = self.infer_stub.ModelInfer(request, timeout=DEADLINE)
        if list(answer.outputs[0].shape) != [rows, 10]:
            self.fault(f"infer: {rows} rows were answered with {answer.outputs[0].shape}")

    def http(self, path, body):
        url = f"http://127.0.0.1:{self.server.ports['http_port']}{path}"
        request = urllib.request.Request(url, json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=DEADLINE) as answer:
            return json.load(answer)

    def infer_http(self, numbers):
        values = [numbers.randrange(17) for _ in range(64)]
        answer = self.http(f"/v2/models/{MODEL}/infer", {"inputs": [
            {"name": "input", "datatype": "FP32", "shape": [1, 1, 8, 8], "data": values}]})
        if answer["outputs"][0]["shape"] != [1, 10]:
            self.fault(f"infer_http: one row was answered with {answer['outputs'][0]['shape']}")

    def reload(self, numbers):
        """Unloads all versions, and loads the newest."""
        try:
            self.model_stub.UnloadVersion(self.model_pb.UnloadVersionRequest(
                model=MODEL, wait=True), timeout=DEADLINE)
        finally:
            self.model_stub.LoadVersion(self.model_pb.LoadVersionRequest(
                model=MODEL, wait=True), timeout=DEADLINE)

    def prune(self, numbers):
        """Deletes all but the newest versions, which `publish` makes."""
        model = self.model_stub.GetModel(self.model_pb.GetModelRequest(name=MODEL),
                                         timeout=DEADLINE)
        for version in model.versions[KEPT_VERSIONS:]:
            self.model_stub.UnloadVersion(self.model_pb.UnloadVersionRequest(
                model=MODEL, version=version.version, wait=True), timeout=DEADLINE)
            self.model_stub.DeleteVersion(self.model_pb.DeleteVersionRequest(
                model=MODEL, version=version.version), timeout=DEADLINE)

    # -------------------------------------------------------------- uploads

    def messages(self, name, key="", offset=0):
        """Returns the messages of an upload of the data from `offset` on, the data in
        two parts."""
        header = self.data_pb.UploadDatasetRequest.Header(name=name, layout=self.layout)
        header.files.add(role=self.data_pb.DatasetFile.TABLE, file_name=harness.DIGITS.name,
                         total_bytes=len(self.file),
                         sha256=hashlib.sha256(self.file).hexdigest())
        if key:
            header.parts.add(upload_key=key, offset=offset)
        half = max(offset, len(self.file) // 2)
        made = [self.data_pb.UploadDatasetRequest(header=header)]
        for data in (self.file[offset:half], self.file[half:]):
            if data:
                made.append(self.data_pb.UploadDatasetRequest(
                    chunk=self.data_pb.UploadDatasetRequest.Chunk(data=data)))
        return made

    def upload(self, numbers, key="", offset=0):
        name = f"soak-{numbers.randrange(1 << 32):x}"
        made = self.data_stub.UploadDataset(iter(self.messages(name, key, offset)),
                                            timeout=DEADLINE)
        if made.rows != 1797:
            self.fault(f"upload: {made.rows} of 1797 rows arrived")
        self.data_stub.DeleteDataset(self.data_pb.DeleteDatasetRequest(name=name),
                                     timeout=DEADLINE)

    def key(self, numbers):
        return hashlib.sha256(f"soak {numbers.randrange(4)}".encode()).hexdigest()

    def kept(self, key):
        """Returns the bytes of a broken upload that the server has."""
        try:
            return self.upload_stub.GetUpload(
                self.upload_pb.GetUploadRequest(upload_key=key), timeout=DEADLINE).bytes
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.NOT_FOUND:
                raise
            return 0

    def break_upload(self, numbers):
        """Sends half of a file on a connection of its own, and closes that."""
        key, closed = self.key(numbers), threading.Event()

        def half():
            yield from self.messages("soak-broken", key)[:2]
            closed.wait(DEADLINE)
        with self.server.channel() as channel:
            call = self.data_rpc.DatasetServiceStub(channel).UploadDataset.future(
                half(), timeout=DEADLINE)
            end = time.monotonic() + DEADLINE
            while not call.done() and not self.kept(key) and time.monotonic() < end:
                time.sleep(0.05)
            broken = call.cancel() if not call.done() else False
            closed.set()
        if not broken and not call.cancelled():
            raise call.exception() or AssertionError("half of a file was a whole one")

    def resume_upload(self, numbers):
        key = self.key(numbers)
        self.upload(numbers, key, self.kept(key))

    # --------------------------------------------------------------- the rest

    def break_watch(self, numbers):
        """Opens a watch on a connection of its own, and closes that after a message."""
        with self.server.channel() as channel:
            if numbers.random() < 0.5:
                stream = self.device_rpc.DeviceServiceStub(channel).WatchDevices(
                    self.device_pb.WatchDevicesRequest(), timeout=DEADLINE)
            else:
                _, job = self.submit(numbers)
                stream = self.job_rpc.JobServiceStub(channel).WatchJob(
                    self.job_pb.WatchJobRequest(id=job.id), timeout=DEADLINE)
            next(stream)
            stream.cancel()

    def read(self, numbers):
        self.job_stub.ListJobs(self.job_pb.ListJobsRequest(page_size=20), timeout=DEADLINE)
        self.model_stub.ListModels(self.model_pb.ListModelsRequest(), timeout=DEADLINE)
        self.device_stub.ListDevices(self.device_pb.ListDevicesRequest(), timeout=DEADLINE)
        # Soon after their end, since the server forgets jobs after a day.
        with self.lock:
            oldest = list(itertools.islice(self.jobs, CHECKED_JOBS))
        for job in oldest:
            self.has_ended(job)

    def scrape(self, numbers):
        if "gpupool_jobs{" not in self.server.metrics():
            self.fault("scrape: the metrics have no gpupool_jobs")

    def be_refused(self, numbers):
        """Asks for what can never be. Raises the refusal's error if it is one."""
        kind = numbers.randrange(3)
        try:
            if kind == 0:
                self.submit(numbers, steps=1 << 60)
            elif kind == 1:
                request = self.infer_pb.ModelInferRequest(model_name=MODEL)
                request.inputs.add(name="input", datatype="FP32", shape=[1, 3])
                request.raw_input_contents.append(bytes(12))
                self.infer_stub.ModelInfer(request, timeout=DEADLINE)
            else:
                self.model_stub.LoadVersion(self.model_pb.LoadVersionRequest(
                    model="no-such-model"), timeout=DEADLINE)
        except grpc.RpcError as error:
            if error.code() not in REFUSALS or not error.details():
                raise
            return
        self.fault(f"be_refused: request {kind}, which can never work, was accepted")

    def kill_worker(self, numbers):
        """Kills the worker of VICTIM, unless that was done a moment ago."""
        pid = self.server.worker_pids().get(VICTIM)
        if pid and time.monotonic() - self.last_kill > BETWEEN_KILLS:
            self.last_kill = time.monotonic()
            self.killed_pids.append(pid)
            os.kill(pid, signal.SIGKILL)
