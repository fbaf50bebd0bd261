#!/usr/bin/env python3
"""The cases of gpu_speed in PyTorch, on the GPU.

    gpu_peer.py CASE BATCH eager|compiled
    gpu_peer.py parameters MODEL

Prints {"ms": median}. "compiled" is torch.compile with CUDA graphs. As ours, a
run copies its inputs from pinned memory and what it answers back to it.
A case "next-batch-train-MODEL" copies the next batch on a stream of its own
while a step runs, as DataLoaders with pinned memory are used.
mlp and cnn run in TF32; resnet50, in channels_last, and gpt2 in bfloat16, the
training ones by autocast. Ends with 77 where there is no PyTorch or no GPU,
and with 78 where PyTorch has no torch.compile."""

import json
import sys
import time

try:
    import torch
    from torch import nn
    from torch.nn import functional
except ImportError:
    sys.exit(77)

SECONDS = 1.5


def mlp():
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def cnn():
    return nn.Sequential(
        nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 7 * 7, 10))


class Bottleneck(nn.Module):
    """With the stride in the 3x3 convolution, as torchvision's."""

    def __init__(self, inputs, width, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False),
            nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, 4 * width, 1, bias=False),
            nn.BatchNorm2d(4 * width))
        self.side = nn.Identity() if inputs == 4 * width else nn.Sequential(
            nn.Conv2d(inputs, 4 * width, 1, stride, bias=False),
            nn.BatchNorm2d(4 * width))

    def forward(self, x):
        return functional.relu(self.body(x) + self.side(x), inplace=True)


def resnet50():
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64),
              nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    inputs, width = 64, 64
    for stage, blocks in enumerate([3, 4, 6, 3]):
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(Bottleneck(inputs, width, stride))
            inputs = 4 * width
        width *= 2
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(inputs, 1000))


class Gpt2Block(nn.Module):
    def __init__(self, width=768, heads=12):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width),
                                 nn.GELU(approximate="tanh"),
                                 nn.Linear(4 * width, width))

    def forward(self, x):
        batch, tokens, width = x.shape
        parts = self.c_attn(self.ln_1(x)).split(width, dim=2)
        q, k, v = (part.view(batch, tokens, self.heads, -1).transpose(1, 2)
                   for part in parts)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.mlp(self.ln_2(x))


class Gpt2(nn.Module):
    """The smallest published one, without dropout; its head is its table."""

    def __init__(self, tokens=1024, vocabulary=50257, width=768, blocks=12):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Parameter(0.02 * torch.randn(tokens, width))
        nn.init.normal_(self.wte.weight, std=0.02)
        self.blocks = nn.Sequential(*[Gpt2Block(width) for _ in range(blocks)])
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.ln_f(self.blocks(self.wte(tokens) + self.wpe))
        return functional.linear(x, self.wte.weight)


MODELS = {"mlp": mlp, "cnn": cnn, "resnet50": resnet50, "gpt2": Gpt2}


def inputs_of(name, batch):
    """(features, labels) in pinned memory."""
    if name == "gpt2":
        data = torch.randint(0, 50257, (2, batch, 1024))
        return data[0].pin_memory(), data[1].pin_memory()
    shape = {"mlp": [784], "cnn": [1, 28, 28], "resnet50": [3, 224, 224]}[name]
    labels = torch.randint(0, 1000 if name == "resnet50" else 10, (batch,))
    return torch.randn(batch, *shape).pin_memory(), labels.pin_memory()


def fused(optimizer, parameters, **options):
    """Where this PyTorch has a fused one."""
    try:
        return optimizer(parameters, fused=True, **options)
    except (TypeError, RuntimeError):
        return optimizer(parameters, **options)


def optimizer_of(name, parameters):
    parameters = list(parameters)
    if name == "resnet50":
        return fused(torch.optim.SGD, parameters, lr=1e-3, momentum=0.9)
    if name == "gpt2":
        return fused(torch.optim.AdamW, parameters, lr=1e-4)
    return fused(torch.optim.Adam, parameters, lr=1e-3)


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


def compile_if(compiled, function):
    if not compiled:
        return function
    if not hasattr(torch, "compile"):
        sys.exit(78)
    return torch.compile(function, mode="reduce-overhead")


def measure_inference(name, model, host_x, compiled):
    sixteen_bits = name in ("resnet50", "gpt2")
    model.eval()
    if sixteen_bits:
        model.bfloat16()
    images = sixteen_bits and host_x.is_floating_point()

    def answer(x):
        if images:
            x = x.bfloat16().contiguous(memory_format=torch.channels_last)
        return model(x).float()
    run = compile_if(compiled, answer)
    x = host_x.cuda()
    with torch.inference_mode():
        host_y = torch.empty_like(answer(x), device="cpu").pin_memory()

        def infer():
            x.copy_(host_x, non_blocking=True)
            host_y.copy_(run(x), non_blocking=True)
        return median_seconds(infer)


class NextBatch:
    """The host gathers and a stream of its own copies a batch ahead. Two
    landings in turn: the step at hand reads the other one."""

    def __init__(self, tensors):
        self.rows = [tensor.clone() for tensor in tensors]  # pageable
        self.pinned = [[torch.empty_like(rows).pin_memory() for rows in self.rows]
                       for _ in range(2)]
        self.landing = [[tensor.cuda() for tensor in tensors] for _ in range(2)]
        self.stream = torch.cuda.Stream()
        self.turn = 0
        self.taken = torch.cuda.Event()
        self.taken.record()
        self.send()

    def send(self):
        """To the landing of the step before the one at hand."""
        self.turn = 1 - self.turn
        self.stream.wait_event(self.taken)
        with torch.cuda.stream(self.stream):
            for rows, pinned, landing in zip(self.rows, self.pinned[self.turn],
                                             self.landing[self.turn]):
                pinned.copy_(rows)
                landing.copy_(pinned, non_blocking=True)

    def take(self):
        torch.cuda.current_stream().wait_stream(self.stream)
        self.taken.record()
        return self.landing[self.turn]


def measure_training(name, model, batch, compiled, ahead=False):
    host_x, host_labels = inputs_of(name, batch)
    x, labels = host_x.cuda(), host_labels.cuda()
    host_loss = torch.empty(()).pin_memory()
    optimizer = optimizer_of(name, model.parameters())
    sixteen_bits = name in ("resnet50", "gpt2")

    def loss_of(features, targets):
        if name == "resnet50":
            features = features.contiguous(memory_format=torch.channels_last)
        with torch.autocast("cuda", torch.bfloat16, enabled=sixteen_bits):
            scores = model(features)
        return functional.cross_entropy(scores.flatten(0, -2).float(),
                                        targets.flatten())
    forward = compile_if(compiled, loss_of)

    next_batch = NextBatch([host_x, host_labels]) if ahead else None

    def train():
        if next_batch is None:
            x.copy_(host_x, non_blocking=True)
            labels.copy_(host_labels, non_blocking=True)
            features, targets = x, labels
        else:
            features, targets = next_batch.take()
        optimizer.zero_grad()
        loss = forward(features, targets)
        loss.backward()
        optimizer.step()
        host_loss.copy_(loss.detach(), non_blocking=True)
        if next_batch is not None:
            next_batch.send()
    return median_seconds(train)


def main():
    if sys.argv[1] == "parameters":
        model = MODELS[sys.argv[2]]()
        print(sum(p.numel() for p in model.parameters()))
        return
    case, batch, how = sys.argv[1:]
    if not torch.cuda.is_available():
        sys.exit(77)
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cudnn.allow_tf32 = True
    torch.backends.cudnn.benchmark = True
    torch.manual_seed(0)
    ahead = case.startswith("next-batch-")
    mode, name = case.removeprefix("next-batch-").split("-", 1)
    model = MODELS[name]().cuda()
    if name == "resnet50":
        model = model.to(memory_format=torch.channels_last)
    if mode == "infer":
        seconds = measure_inference(name, model, inputs_of(name, int(batch))[0],
                                    how == "compiled")
    else:
        seconds = measure_training(name, model, int(batch), how == "compiled",
                                   ahead)
    print(json.dumps({"ms": 1000 * seconds}))


if __name__ == "__main__":
    main()
