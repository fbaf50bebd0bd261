"""train-digits: examples/digits.yaml through the real server, five times.

Prints the median of the training time (start to end of the job), of samples a
second, and of the overhead of a job: its whole time against that of its steps
alone.
"""
import datetime
import json
import pathlib
import shutil
import statistics
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/e2e"))
import harness  # noqa: E402


def seconds(job, first, last):
    parse = lambda t: datetime.datetime.fromisoformat(t[:26].rstrip("Z"))
    return (parse(job[last]) - parse(job[first])).total_seconds()


def main():
    harness.BIN = pathlib.Path(sys.argv[1])
    state = tempfile.mkdtemp(prefix="gpupool-bench-")
    server = harness.Server(state, ("--devices", "cpu:1")).start()
    times, rates, accuracies = [], [], []
    try:
        server.upload_digits()
        for _ in range(5):
            job = server.wait_job(int(server.json("submit", "examples/digits.yaml")["id"]))
            assert job["state"] == "SUCCEEDED", job
            times.append(seconds(job, "start_time", "end_time"))
            rates.append(job["progress"]["samples_per_second"])
            accuracies.append(job["evaluation"]["accuracy"])
    finally:
        server.stop()
        shutil.rmtree(state, ignore_errors=True)
    for case, values, unit in (("job", times, "s"), ("rate", rates, "samples/s"),
                               ("held-out-accuracy", accuracies, "ratio")):
        print(json.dumps({"bench": "train-digits", "case": case,
                          "ours": round(statistics.median(values), 4),
                          "peer": None, "ratio": None, "unit": unit}))


if __name__ == "__main__":
    main()
