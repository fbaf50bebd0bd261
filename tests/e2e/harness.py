"""Starts the real daemon with real workers and talks to it by CLI and gRPC.

Used by the tests of tests/e2e and tests/fault:

    class MyTest(harness.TestCase):
        def test_rule(self):
            server = self.start("--devices", "cpu:2")
            job = server.json("submit", "examples/digits.yaml")
"""
import ctypes
import hashlib
import importlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DIGITS = ROOT / "examples/data/digits.csv.gz"
BIN = ROOT / "build/release/bin"  # replaced by main()
TERMINAL = ("SUCCEEDED", "FAILED", "CANCELLED")


def sandbox_for_programs():
    """Returns the options of a server whose workers can start gpupool-tokenizer: none,
    unless the kernel has no Landlock of version 2."""
    landlock_create_ruleset, ask_version = 444, 1
    version = ctypes.CDLL(None).syscall(landlock_create_ruleset, None, 0, ask_version)
    return () if version >= 2 else ("--sandbox", "off")


class CommandFailed(AssertionError):
    def __init__(self, command, done):
        super().__init__(f"{command} ended with {done.returncode}\n"
                         f"stdout: {done.stdout}\nstderr: {done.stderr}")
        self.code, self.stderr, self.stdout = done.returncode, done.stderr, done.stdout


# The minimum limit of a test's waits, in seconds. It is far more than a busy
# machine needs. Only a failing test takes so long.
PATIENCE = 90


def wait_until(condition, seconds=PATIENCE, what="a condition"):
    """Waits for a value of `condition` that is true, and returns it."""
    seconds = max(seconds, PATIENCE)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited {seconds} s for {what}")


def let_others_run(seconds):
    """Sleeps, so that kills and the like come at a different point each time.

    What the test expects must hold at any of them.
    """
    time.sleep(seconds)


def stubs():
    """Returns the Python modules generated from proto/. Generates them once per content."""
    protos = sorted((ROOT / "proto").rglob("*.proto"))
    text = b"".join(p.read_bytes() for p in protos)
    out = BIN.parent / "python_stubs" / hashlib.sha256(text).hexdigest()[:16]
    if not out.exists():
        out.parent.mkdir(exist_ok=True)
        made = tempfile.mkdtemp(dir=out.parent)
        subprocess.run(
            ["protoc", "-I.", f"--python_out={made}", f"--grpc_python_out={made}",
             "--plugin=protoc-gen-grpc_python=/usr/bin/grpc_python_plugin",
             *(str(p.relative_to(ROOT / "proto")) for p in protos)],
            cwd=ROOT / "proto", check=True)
        try:
            os.rename(made, out)
        except OSError:  # another test was first
            shutil.rmtree(made)
    if str(out) not in sys.path:
        sys.path.insert(0, str(out))

    def load(name):
        return (importlib.import_module(f"{name}_pb2"),
                importlib.import_module(f"{name}_pb2_grpc"))
    return load


class Server:
    """One gpupoold and its workers, with a state folder that outlives it."""

    def __init__(self, state, arguments):
        self.state = pathlib.Path(state)
        self.arguments = list(arguments)
        self.process = None
        self.ports = {}

    def start(self):
        # Not on the disk of the state folder, because a test may have filled it.
        port_file = pathlib.Path(tempfile.gettempdir(),
                                 f"gpupool-ports-{os.getpid()}-{id(self)}.json")
        port_file.unlink(missing_ok=True)
        with open(self.state / "gpupoold.log", "ab") as log:
            self.process = subprocess.Popen(
                [BIN / "gpupoold", "--state-dir", self.state, "--grpc-port", "0",
                 "--http-port", "0", "--metrics-port", "0", "--port-file", port_file,
                 *self.arguments], stdout=log, stderr=log)

        def serving():
            if self.process.poll() is not None:
                raise AssertionError(f"gpupoold ended with {self.process.returncode}:\n"
                                     + self.log()[-3000:])
            return port_file.exists()
        wait_until(serving, what="gpupoold to serve")
        self.ports = json.loads(port_file.read_text())
        port_file.unlink()
        return self

    def log(self):
        return (self.state / "gpupoold.log").read_text(errors="replace")

    @property
    def address(self):
        return f"127.0.0.1:{self.ports['grpc_port']}"

    def kill(self):
        """Kills only the daemon with kill -9. Its workers stay."""
        self.process.kill()
        self.process.wait()

    def terminate(self):
        """Sends SIGTERM and returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def cli(self, *arguments, code=0, timeout=120):
        """Runs gpupool and returns its stdout. Any other exit code fails the test."""
        command = [str(BIN / "gpupool"), "--address", self.address,
                   *map(str, arguments)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True,
                              timeout=timeout)
        if done.returncode != code:
            raise CommandFailed(command, done)
        return done.stdout if code == 0 else done.stderr

    def json(self, *arguments, **options):
        return json.loads(self.cli(*arguments, "-o", "json", **options))

    def channel(self):
        import grpc
        return grpc.insecure_channel(self.address)

    def job(self, job_id):
        return self.json("get", job_id)

    def wait_job(self, job_id, states=TERMINAL, seconds=600):
        def reached():
            job = self.job(job_id)
            return job if job["state"] in states else None
        return wait_until(reached, seconds, f"job {job_id} in {states}")

    def wait_step(self, job_id, step, seconds=120):
        return wait_until(
            lambda: int(self.job(job_id).get("progress", {}).get("step", 0)) >= step,
            seconds, f"step {step} of job {job_id}")

    def wait_why(self, job_id, words):
        """Returns what `gpupool why` says, once it has these words: the first job of
        a kind is tried alone before it waits for anything else."""
        def said():
            why = self.cli("why", job_id)
            return why if words in why else None
        return wait_until(said, what=f"`why` of {job_id} to say '{words}'")

    def upload_digits(self, name="digits"):
        self.cli("datasets", "upload", name, DIGITS)

    def submit(self, spec, *arguments):
        """Submits a job given as YAML text and returns its id."""
        path = self.state / "job.yaml"
        path.write_text(spec)
        return int(self.json("submit", path, *arguments)["id"])

    def devices(self):
        return self.json("devices")["devices"]

    def worker_pids(self):
        """Returns every live worker of this state folder, including the meta worker."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                state = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
            # Not the process that examines the machine for the daemon.
            if state != "Z" and str(self.state).encode() in words \
                    and words[0].endswith(b"gpupool-worker") and b"--device" in words:
                device = words[words.index(b"--device") + 1].decode()
                found[device] = int(entry.name)
        return found

    def spooled_reports(self, device):
        """The reports that a worker keeps for a daemon that does not listen; the
        form of the file is in server/worker/report_spool.h."""
        pb, _ = stubs()("gpupool.worker.v1.worker")
        path = self.state / "workers" / device.replace(":", "-") / "spool"
        data, reports = path.read_bytes(), []
        while len(data) >= 8:
            length = int.from_bytes(data[:4], "little")
            if len(data) < 8 + length:
                break
            reports.append(pb.Report.FromString(data[8:8 + length]))
            data = data[8 + length:]
        return reports

    def metrics(self):
        url = f"http://127.0.0.1:{self.ports['metrics_port']}/metrics"
        return urllib.request.urlopen(url, timeout=PATIENCE).read().decode()

    def manifest(self, digest):
        return json.loads((self.state / "blobs" / digest).read_text())

    def weights_sha256(self, job):
        """Returns the digest of the weights of a job's last checkpoint."""
        files = self.manifest(job["last_checkpoint"]["manifest_sha256"])["files"]
        return next(f["sha256"] for f in files if f["role"] == "weights")

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pid in self.worker_pids().values():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


class Hold:
    """Holds a job of a server at the begin of a step, so that what a test does to
    it meets it there on any machine (server/worker/injected_fault.h)."""

    def __init__(self, folder):
        self.file = pathlib.Path(folder) / "fault"
        self.held = pathlib.Path(folder) / "fault.done"

    def at(self, step):
        """Makes the next job that reaches `step` wait there, once."""
        written = self.file.with_suffix(".new")
        written.write_text(f"hold-step {step}")
        written.rename(self.file)

    def wait(self):
        wait_until(self.held.exists, what="the job to be held")

    def release(self):
        self.held.unlink()


class TestCase(unittest.TestCase):
    def hold(self):
        """Returns a Hold for servers that are started after this call."""
        folder = tempfile.TemporaryDirectory(prefix="gpupool-hold-")
        self.addCleanup(folder.cleanup)
        hold = Hold(folder.name)
        os.environ["GPUPOOL_INJECT_FAULT_FILE"] = str(hold.file)
        self.addCleanup(os.environ.pop, "GPUPOOL_INJECT_FAULT_FILE")
        return hold

    def start_held_job(self, step):
        """Returns a server, a job of 400 steps that waits at `step`, and its Hold."""
        hold = self.hold()
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        hold.at(step)
        job = server.submit(digits_job(steps=400))
        hold.wait()
        return server, job, hold

    def start(self, *arguments):
        state = tempfile.mkdtemp(prefix="gpupool-test-")
        server = Server(state, arguments or ("--devices", "cpu:1"))
        self.addCleanup(shutil.rmtree, state, ignore_errors=True)
        self.addCleanup(server.stop)
        return server.start()


def digits_job(name="digits", steps=400, **changes):
    """Returns a job with a small convolutional net on the digits, as YAML text."""
    options = {"batch_size": 32, "seed": 1, "checkpoint_every_steps": 100,
               "report_every_steps": 20, "device": "", "max_attempts": 3,
               "learning_rate": 0.001, "priority": 0, "dataset": "digits",
               "publish": "false", "filters": 8}
    options.update(changes)
    return f"""
name: {name}
priority: {options["priority"]}
device: "{options["device"]}"
model:
  input_shape: [1, 8, 8]
  layers:
    - conv2d: {{filters: {options["filters"]}, kernel: 3, padding: 1}}
    - batch_norm
    - relu
    - max_pool: {{kernel: 2}}
    - flatten
    - dropout: {{probability: 0.1}}
    - dense: {{units: 10}}
data:
  dataset: {options["dataset"]}
  held_out: {{every: 5}}
  scaling: {{multiply: 0.0625}}
training:
  cross_entropy: {{}}
  adam: {{learning_rate: {options["learning_rate"]}}}
  batch_size: {options["batch_size"]}
  steps: {steps}
  seed: {options["seed"]}
  checkpoint_every_steps: {options["checkpoint_every_steps"]}
  report_every_steps: {options["report_every_steps"]}
publish: {{on_success: {options["publish"]}}}
retry: {{max_attempts: {options["max_attempts"]}, backoff_seconds: 0.2}}
"""


def main():
    """Calls unittest.main, after taking --bin DIR from the arguments."""
    global BIN
    if "--bin" in sys.argv:
        at = sys.argv.index("--bin")
        BIN = pathlib.Path(sys.argv[at + 1]).resolve()
        del sys.argv[at:at + 2]
    # Subclasses read the value from this module, even if __main__ sets it.
    sys.modules["harness"].BIN = BIN
    # The contexts of whoever runs the tests must not choose servers. Tests run
    # gpupool as other users, too, who must be able to see that there are none.
    with tempfile.TemporaryDirectory(prefix="gpupool-config-") as folder:
        os.chmod(folder, 0o711)
        os.environ["XDG_CONFIG_HOME"] = folder
        os.environ.pop("GPUPOOL_CONTEXT", None)
        unittest.main(verbosity=2)
