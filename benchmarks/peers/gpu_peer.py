#!/usr/bin/env python3
"""The cases of gpu_speed in PyTorch, on the GPU.

    gpu_peer.py CASE BATCH eager|compiled

Prints {"ms": median} or {"gib_per_s": median}. "compiled" is torch.compile with
CUDA graphs. Ends with 77 where there is no PyTorch or no GPU."""

import json
import sys
import time

try:
    import torch
    from torch import nn
except ImportError:
    sys.exit(77)

SECONDS = 1.5
COPY_BYTES = 256 << 20


def mlp():
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 7 * 7, 10))


def median_seconds(call):
    for _ in range(10):
        call()
    torch.cuda.synchronize()
    times = []
    end = time.monotonic() + SECONDS
    while time.monotonic() < end or len(times) < 20:
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def measure_model(case, batch, compiled):
    torch.manual_seed(0)
    is_mlp = "mlp" in case
    model = (mlp() if is_mlp else cnn()).cuda()
    x = torch.randn(batch, *([784] if is_mlp else [1, 28, 28]), device="cuda")
    labels = torch.randint(0, 10, (batch,), device="cuda")
    mode = {"mode": "reduce-overhead"} if compiled else None
    if case.startswith("infer"):
        model.eval()
        run = torch.compile(model, **mode) if compiled else model

        def infer():
            with torch.inference_mode():
                run(x)
        return median_seconds(infer)
    step = torch.optim.Adam(model.parameters(), lr=1e-3, capturable=True)

    def loss_of(inputs, targets):
        return nn.functional.cross_entropy(model(inputs), targets)
    forward = torch.compile(loss_of, **mode) if compiled else loss_of

    def train():
        step.zero_grad()
        forward(x, labels).backward()
        step.step()
    return median_seconds(train)


def measure_copy():
    host = torch.empty(COPY_BYTES, dtype=torch.uint8, pin_memory=True)
    device = torch.empty(COPY_BYTES, dtype=torch.uint8, device="cuda")
    return median_seconds(lambda: device.copy_(host, non_blocking=True))


def main():
    case, batch, how = sys.argv[1:]
    if not torch.cuda.is_available():
        sys.exit(77)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    if case == "h2d":
        print(json.dumps({"gib_per_s": COPY_BYTES / 2**30 / measure_copy()}))
        return
    seconds = measure_model(case, int(batch), how == "compiled")
    print(json.dumps({"ms": 1000 * seconds}))


if __name__ == "__main__":
    main()
