#!/usr/bin/env python3
"""Our speed on a GPU beside PyTorch's, case by case, in one run.

    gpu_speed.py BUILD_DIR

Prints one JSON line for each case and peer: {"bench", "case", "ours", "peer",
"ratio", "unit"}; where a side is missing, its figure is null and "why" says
so. Cases that this benchmark has no program for yet are listed as such."""

import json
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
CASES = [("train-mlp", 64, "ms"), ("train-cnn", 64, "ms"),
         ("infer-cnn", 1, "ms"), ("infer-cnn", 32, "ms"),
         ("h2d", 1, "gib_per_s")]
MISSING = ["train-resnet50 bf16 b256", "infer-resnet50 bf16 b1",
           "infer-resnet50 bf16 b32", "train-gpt2-124M bf16 b32x1024"]


def measure(command):
    """(figures, None) or (None, why)."""
    try:
        done = subprocess.run(command, capture_output=True, text=True,
                              timeout=300, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    if done.returncode == 77:
        return None, "no GPU, or no PyTorch"
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        return None, (done.stderr.strip() or "no output").splitlines()[-1]
    return json.loads(lines[-1]), None


def main():
    build = pathlib.Path(sys.argv[1])
    for case, batch, unit in CASES:
        ours, why = measure(
            [str(build / "benchmarks/gpu_speed"), case, str(batch)])
        for how in ["eager"] if case == "h2d" else ["eager", "compiled"]:
            peer, peer_why = measure(["python3", str(HERE / "peers/gpu_peer.py"),
                                      case, str(batch), how])
            line = {"bench": case, "case": f"b{batch} torch {how}",
                    "ours": ours and ours[unit], "peer": peer and peer[unit],
                    "ratio": None, "unit": unit}
            if ours and peer:
                line["ratio"] = round(ours[unit] / peer[unit], 4)
            if why or peer_why:
                line["why"] = why or peer_why
            print(json.dumps(line), flush=True)
    for case in MISSING:
        print(json.dumps({"bench": case, "ours": None,
                          "why": "this benchmark has no program for it yet"}))


if __name__ == "__main__":
    main()
