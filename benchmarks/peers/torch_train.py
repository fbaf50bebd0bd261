#!/usr/bin/python3
"""Milliseconds of one training step in PyTorch.

    torch_train.py MODEL BATCH OPTIMIZER THREADS SECONDS

MODEL is a name of bench_models.py or net_models.py; OPTIMIZER is sgd (momentum 0.9) or adam.
Prints {"ms": median}."""

import json
import pathlib
import sys
import time

import torch
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/conformance/pytorch"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import bench_models  # noqa: E402
import net_models  # noqa: E402


def main():
    name, batch, optimizer, threads, seconds = sys.argv[1:]
    torch.set_num_threads(int(threads))
    torch.manual_seed(0)
    maker, shape = {**bench_models.MODELS, **net_models.NETS}[name]
    model = maker().train()
    x = torch.randn(int(batch), *shape)
    labels = torch.randint(0, 10, (int(batch),))
    parameters = model.parameters()
    step = (torch.optim.Adam(parameters, lr=1e-3) if optimizer == "adam" else
            torch.optim.SGD(parameters, lr=1e-3, momentum=0.9))

    def train():
        step.zero_grad()
        loss = nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        step.step()
        return loss.item()

    for _ in range(3):
        train()
    times = []
    end = time.monotonic() + float(seconds)
    while time.monotonic() < end or len(times) < 5:
        start = time.perf_counter()
        train()
        times.append(time.perf_counter() - start)
    print(json.dumps({"ms": 1000 * sorted(times)[len(times) // 2]}))


if __name__ == "__main__":
    main()
