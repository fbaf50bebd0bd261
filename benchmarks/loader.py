#!/usr/bin/python3
"""Times batches of transformed images here and in the peer, in turns, three times
each, and prints one JSON line per case with the medians.

    loader.py BUILD_DIR

Without torch and torchvision (Debian: python3-torch, python3-torchvision) only our
figure is printed, and a line says why.
"""
import importlib.util
import json
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROUNDS = 3
SECONDS = "2"
WORKERS = "2"


def milliseconds(command):
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)["ms"]


def main():
    ours = pathlib.Path(sys.argv[1]) / "benchmarks/loader_speed"
    peer = HERE / "peers/torch_loader.py"
    missing = [name for name in ("torch", "torchvision")
               if importlib.util.find_spec(name) is None]
    if missing:
        print(f"loader: no peer, because {' and '.join(missing)} cannot be imported",
              file=sys.stderr)
    for case in ("small", "large"):
        arguments = [case, WORKERS, SECONDS]
        own, others = [], []
        for _ in range(ROUNDS):
            own.append(milliseconds([ours, *arguments]))
            if not missing:
                others.append(milliseconds(["/usr/bin/python3", peer, *arguments]))
        mine = statistics.median(own)
        other = statistics.median(others) if others else None
        print(json.dumps({"bench": "loader", "case": case, "ours": round(mine, 4),
                          "peer": other and round(other, 4),
                          "ratio": other and round(mine / other, 4), "unit": "ms"}),
              flush=True)


if __name__ == "__main__":
    main()
