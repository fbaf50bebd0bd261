#!/usr/bin/env python3
"""Compares our speed on a GPU with PyTorch's, case by case, in one run.

    gpu_speed.py BUILD_DIR [LIMIT_SECONDS]

Prints one JSON line for each case and peer: {"bench", "case", "ours", "peer",
"ratio", "target", "unit"}. The target bounds the ratio, from above for times
and from below for rates. If a side is missing, or there was no time for it, its
figure is null and "why" says so."""

import json
import pathlib
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
# Case, batch, and the target ratio to compiled PyTorch.
CASES = [("train-mlp", 64, None), ("train-cnn", 64, None),
         ("infer-cnn", 1, None), ("infer-cnn", 32, None),
         ("train-resnet50", 256, 1.0), ("infer-resnet50", 1, 0.8),
         ("infer-resnet50", 32, 0.8), ("train-gpt2", 32, 1.0)]
# Case, batch: steps during which the next batch is copied.
NEXT_BATCHES = [("train-mlp", 4096), ("train-resnet50", 256)]
MOST_NEXT_BATCH_RATIO = 1.0  # of steps whose batches come with them
COPIES_KIB = [4, 64, 1024, 16 << 10, 256 << 10]
LEAST_COPY_RATIO = 0.95  # of cudaMemcpyAsync alone
MOST_SECONDS = 240  # of one measurement
WHY = {77: "no GPU, or no PyTorch", 78: "this PyTorch has no torch.compile"}


class Clock:
    def __init__(self, limit):
        self.end = time.monotonic() + limit

    def measure(self, command):
        """(figures, None) or (None, why)."""
        left = min(self.end - time.monotonic(), MOST_SECONDS)
        if left <= 0:
            return None, "not run: no time left"
        try:
            done = subprocess.run(command, capture_output=True, text=True,
                                  timeout=left, check=False)
        except subprocess.TimeoutExpired:
            return None, f"took more than {left:.0f} s"
        except OSError as error:
            return None, str(error)
        lines = done.stdout.strip().splitlines()
        if done.returncode != 0 or not lines:
            last = (done.stderr.strip() or "no output").splitlines()[-1]
            return None, WHY.get(done.returncode, last)
        return json.loads(lines[-1]), None


def report(row, why):
    row["ratio"] = None
    if row["ours"] and row["peer"]:
        row["ratio"] = round(row["ours"] / row["peer"], 4)
    if why:
        row["why"] = why
    print(json.dumps(row), flush=True)


def measure_next_batch(binary, clock, case, batch):
    bench = f"next-batch-{case}"
    ours, why = clock.measure([binary, "next-batch", case, str(batch)])
    report({"bench": bench, "case": f"b{batch}, batches with their steps",
            "ours": ours and ours["ms"], "peer": ours and ours["without"],
            "target": MOST_NEXT_BATCH_RATIO, "unit": "ms"}, why)
    peer, peer_why = clock.measure(
        ["python3", str(HERE / "peers/gpu_peer.py"), f"next-batch-{case}",
         str(batch), "eager"])
    report({"bench": bench, "case": f"b{batch} torch eager, the same",
            "ours": ours and ours["ms"], "peer": peer and peer["ms"],
            "target": None, "unit": "ms"},
           "; ".join(sorted({text for text in (why, peer_why) if text})))


def main():
    binary = str(pathlib.Path(sys.argv[1]) / "benchmarks/gpu_speed")
    clock = Clock(float(sys.argv[2]) if len(sys.argv) > 2 else 3600)
    for kib in COPIES_KIB:
        for way in ["to-device", "from-device"]:
            found, why = clock.measure([binary, "copy", way, str(kib)])
            report({"bench": f"copy-{way}", "case": f"{kib} KiB, cudaMemcpyAsync",
                    "ours": found and found["gib_per_s"],
                    "peer": found and found["bare"],
                    "target": LEAST_COPY_RATIO, "unit": "gib_per_s"}, why)
    for case, batch in NEXT_BATCHES:
        measure_next_batch(binary, clock, case, batch)
    for case, batch, target in CASES:
        ours, why = clock.measure([binary, case, str(batch)])
        for how in ["eager", "compiled"]:
            peer, peer_why = clock.measure(
                ["python3", str(HERE / "peers/gpu_peer.py"), case, str(batch),
                 how])
            report({"bench": case, "case": f"b{batch} torch {how}",
                    "ours": ours and ours["ms"], "peer": peer and peer["ms"],
                    "target": target if how == "compiled" else None,
                    "unit": "ms"},
                   "; ".join(sorted({text for text in (why, peer_why)
                                     if text})))


if __name__ == "__main__":
    main()
