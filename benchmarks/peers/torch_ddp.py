#!/usr/bin/python3
"""Milliseconds of one training step in PyTorch on several CPU processes:
DistributedDataParallel over Gloo.

    torch_ddp.py MODEL BATCH OPTIMIZER RANKS THREADS SECONDS

MODEL is a name of bench_models.py; OPTIMIZER is sgd (momentum 0.9) or adam.
BATCH is shared equally by the ranks. Prints {"ms": median} of rank 0."""

import json
import os
import pathlib
import socket
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/conformance/pytorch"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import bench_models  # noqa: E402


def run_rank(rank, port, name, batch, optimizer, ranks, threads, seconds):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port),
                      GLOO_SOCKET_IFNAME="lo")
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    maker, shape = bench_models.MODELS[name]
    model = nn.parallel.DistributedDataParallel(maker().train())
    x = torch.randn(batch // ranks, *shape)
    labels = torch.randint(0, 10, (batch // ranks,))
    parameters = model.parameters()
    step = (torch.optim.Adam(parameters, lr=1e-3) if optimizer == "adam" else
            torch.optim.SGD(parameters, lr=1e-3, momentum=0.9))

    def train():
        step.zero_grad()
        loss = nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        step.step()
        return loss.item()

    start = time.monotonic()
    for _ in range(5):
        train()
    # All ranks make as many steps as rank 0 has time for.
    count = torch.tensor([max(5, int(5 * seconds /
                                     (time.monotonic() - start)))])
    dist.broadcast(count, 0)
    times = []
    for _ in range(int(count)):
        start = time.perf_counter()
        train()
        times.append(time.perf_counter() - start)
    if rank == 0:
        print(json.dumps({"ms": 1000 * sorted(times)[len(times) // 2]}))
    dist.destroy_process_group()


def main():
    name, batch, optimizer, ranks, threads, seconds = sys.argv[1:]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    mp.spawn(run_rank, nprocs=int(ranks),
             args=(port, name, int(batch), optimizer, int(ranks),
                   int(threads), float(seconds)))


if __name__ == "__main__":
    main()
