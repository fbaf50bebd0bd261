#!/usr/bin/python3
"""How long does it take from SubmitJob to the event of the first step, on an idle
device, for a job that was planned before?

    submit_to_start.py BUILD_DIR

The cases are the model of examples/digits.yaml (a convolutional net on 1,797
images) and a perceptron on the same data, each for a few steps. The times are
those that the client sees: the submission's acknowledgement, the states, and the
first step's loss. Each is on disk before the client gets it. The peer is the
fsyncs alone, because three commits come before that event. Client and server share
the machine. Prints one JSON line per case with the median of ROUNDS.
"""

import json
import pathlib
import statistics
import subprocess
import sys

from daemon import Daemon

ROUNDS = 5
JOBS = 40
FLOOR_COMMITS = 3

MLP = """
model { input_shape: 64
  layers { dense { units: 32 } } layers { relu {} } layers { dense { units: 10 } } }
"""
CNN = """
model { input_shape: 1 input_shape: 8 input_shape: 8
  layers { conv2d { filters: 32 kernel: 3 padding: 1 } } layers { batch_norm {} }
  layers { relu {} }
  layers { conv2d { filters: 64 kernel: 3 padding: 1 } } layers { batch_norm {} }
  layers { relu {} } layers { max_pool { kernel: 2 } } layers { flatten {} }
  layers { dropout { probability: 0.25 } } layers { dense { units: 128 } }
  layers { relu {} } layers { dense { units: 10 } } }
"""
REST = """
data { dataset: "digits" held_out { every: 5 } scaling { multiply: 0.0625 } }
training { cross_entropy {} adam {} batch_size: 32 steps: 3 seed: 1 }
"""


def main(build):
    folder = pathlib.Path(build) / "benchmarks"

    def run(program, *arguments):
        return json.loads(subprocess.run([folder / program, *map(str, arguments)], check=True,
                                         stdout=subprocess.PIPE, text=True).stdout)

    cases = {"mlp": MLP, "cnn": CNN}
    rounds = {case: [] for case in cases}
    with Daemon(build) as daemon:
        daemon.cli("datasets", "upload", "digits", "examples/data/digits.csv.gz")
        for _ in range(ROUNDS):
            for case, model in cases.items():
                job = daemon.folder / f"{case}.txt"
                job.write_text(model + REST)
                ours = run("submit_to_start", "--address", daemon.address, "--job", job,
                           "--rounds", JOBS)
                ours["floor_ms"] = FLOOR_COMMITS * 1e3 / run(
                    "durable_submits", "fsync", "--folder", daemon.folder,
                    "--bytes", 8192)["fsyncs_per_second"]
                rounds[case].append(ours)
    for case, results in rounds.items():
        middle = {key: statistics.median(result[key] for result in results)
                  for key in results[0]}
        print(json.dumps({"bench": "submit-to-start", "figure": "p50 ms", "case": case,
                          "ours": round(middle.pop("p50_ms"), 2),
                          "peer": round(middle.pop("floor_ms"), 2),
                          "peer_is": f"{FLOOR_COMMITS} fsyncs",
                          "all": [round(result["p50_ms"], 2) for result in results],
                          **{key: round(value, 2) for key, value in middle.items()},
                          "wanted_ms": 50}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
