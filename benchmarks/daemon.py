"""A server of its own for one benchmark."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent


class Daemon:
    """gpupoold with one CPU device, and its folder, until the block ends."""

    def command(self, port_file):
        return [self.bin / "gpupoold", "--devices", "cpu:1", "--state-dir", self.folder,
                "--grpc-port", "0", "--http-port", "0", "--metrics-port", "0",
                "--port-file", port_file, *self.flags]

    def __init__(self, build, *flags):
        self.bin = pathlib.Path(build) / "bin"
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpupool-bench-"))
        self.flags = flags

    def __enter__(self):
        ports = self.folder / "ports.json"
        with open(self.folder / "log", "w") as log:
            self.process = subprocess.Popen(
                self.command(ports), stdout=log, stderr=log,
                env=dict(os.environ, GPUPOOL_INJECT_FAULT_FILE=self.folder / "fault"))
        while not ports.exists():
            if self.process.poll() is not None:
                raise SystemExit((self.folder / "log").read_text())
            time.sleep(0.05)
        self.ports = json.loads(ports.read_text())
        self.address = f"127.0.0.1:{self.ports['grpc_port']}"
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def cli(self, *arguments):
        return subprocess.run(
            [self.bin / "gpupool", "--address", self.address, *map(str, arguments)],
            check=True, capture_output=True, text=True,
            cwd=HERE.parent,
            env=dict(os.environ, NO_COLOR="1")).stdout

    def start_example(self, name, epochs):
        """Submits an example of so many epochs, with its data."""
        text = (HERE.parent / f"examples/{name}.yaml").read_text()
        job = self.folder / f"{name}.yaml"
        job.write_text(re.sub(r"epochs: \d+ ", f"epochs: {epochs} ", text, count=1))
        self.cli("submit", job, "--data", f"examples/data/{name}.csv.gz")

    def metric(self, name):
        """The sum of the series of this name."""
        url = f"http://127.0.0.1:{self.ports['metrics_port']}/metrics"
        text = urllib.request.urlopen(url, timeout=10).read().decode()
        values = re.findall(rf"^{name}(?:{{[^}}]*}})? (\S+)$", text, re.M)
        return sum(map(float, values))
