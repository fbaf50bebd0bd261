#!/usr/bin/python3
"""Writes data/: the results of PyTorch, for the tests beside this file.

    /usr/bin/python3 tests/conformance/pytorch/make.py

Needs Debian's python3-torch, python3-torchvision and python3-onnx. For each
model it stores the exported graph with its weights stripped (external data in
a file that does not exist: the tests make it with the formula of formula.py,
by the ranges in <model>.json) and, in <model>.json, the outputs for an input
of the same formula or the losses of 30 training steps per optimizer."""

import io
import json
import pathlib
import sys

import numpy as np
import onnx
import torch
from onnx import external_data_helper, numpy_helper
from torch import nn

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import models  # noqa: E402
import formula as numbers  # noqa: E402

DATA = pathlib.Path(__file__).parent / "data"
STEPS = 30
INPUT_STREAM = 1 << 40
LABEL_STREAM = 1 << 41
SMALL = 16  # initializers up to this many elements stay in the graph

# name -> (maker, learning rate)
OPTIMIZERS = {
    "sgd": (lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9), 0.01),
    "adam": (lambda p, lr: torch.optim.Adam(p, lr=lr), 0.001),
    "adamw": (lambda p, lr: torch.optim.AdamW(p, lr=lr, weight_decay=0.01),
              0.001),
    "rmsprop": (lambda p, lr: torch.optim.RMSprop(p, lr=lr), 0.0005),
    "adagrad": (lambda p, lr: torch.optim.Adagrad(p, lr=lr), 0.005),
}
# Of the learning rates: a deep net with batch norm over few rows would
# otherwise blow rounding up until no two implementations agree.
FACTORS = {"train_cnn": 0.2, "train_resnet18": 0.0005}


def scale_and_shift(name, tensor):
    """Returns the range of a weight: like PyTorch's initial range, but never empty."""
    if name.endswith("running_var"):
        return 0.3, 1.0
    if name.endswith("running_mean"):
        return 0.1, 0.0
    if tensor.dim() == 1:
        norm = "norm" in name or "bn" in name or "downsample.1" in name
        return (0.2, 1.0) if norm and name.endswith("weight") else (0.1, 0.0)
    fan_in = tensor[0].numel()
    if "up1.weight" in name or "up2.weight" in name:
        fan_in = tensor.shape[0]
    return (3.0 / fan_in) ** 0.5, 0.0


def fill(model):
    """Sets every weight by the formula and returns what to write where."""
    ranges, first = {}, 0
    for name, tensor in model.state_dict().items():
        if not tensor.dtype.is_floating_point:
            continue
        scale, shift = scale_and_shift(name, tensor)
        values = numbers.uniform(first, tensor.numel(), scale, shift)
        tensor.copy_(torch.from_numpy(values).view(tensor.shape))
        ranges[name] = {"first": first, "count": tensor.numel(),
                        "scale": scale, "shift": shift}
        first += tensor.numel()
    return ranges


def example(shape, tokens, batch):
    count = batch * int(np.prod(shape))
    if tokens:
        return torch.from_numpy(
            numbers.integers(INPUT_STREAM, count, tokens).reshape(
                [batch] + shape))
    return torch.from_numpy(
        numbers.uniform(INPUT_STREAM, count).reshape([batch] + shape))


def export(name, model, sample, ranges):
    """Returns the exported graph, with weights moved to a file that is not stored."""
    buffer = io.BytesIO()
    torch.onnx.export(
        model, sample, buffer, opset_version=14, input_names=["input"],
        output_names=["output"], do_constant_folding=False,
        training=torch.onnx.TrainingMode.PRESERVE,
        dynamic_axes={"input": {0: "batch"}, "output": {0: "batch"}})
    proto = onnx.load_from_string(buffer.getvalue())
    stored = []
    for tensor in proto.graph.initializer:
        where = ranges.get(tensor.name)
        if where is None or where["count"] <= SMALL:
            continue
        expected = numbers.uniform(where["first"], where["count"],
                                   where["scale"], where["shift"])
        found = numpy_helper.to_array(tensor).reshape(-1)
        assert np.array_equal(found, expected), tensor.name
        external_data_helper.set_external_data(
            tensor, location="weights.bin", offset=4 * where["first"],
            length=4 * where["count"])
        tensor.ClearField("raw_data")
        stored.append(where)
    for node in proto.graph.node:
        node.ClearField("doc_string")
    (DATA / f"{name}.onnx").write_bytes(proto.SerializeToString())
    return stored


def rounded(values):
    return [float(f"{v:.8g}") for v in np.asarray(values).reshape(-1)]


def make_inference(name, maker, shape, tokens):
    torch.manual_seed(0)
    model = maker().eval()
    with torch.no_grad():
        ranges = fill(model)
        sample = example(shape, tokens, 2)
        output = model(sample).numpy()
    stored = export(name, model, sample, ranges)
    # At most 256 numbers of each output, evenly spread.
    stride = max(1, output.size // 256)
    write(name, {"input_shape": [2] + shape, "tokens": tokens,
                 "weights": stored, "output_shape": list(output.shape),
                 "stride": stride,
                 "output": rounded(output.reshape(-1)[::stride])})


def train(maker, optimizer, rate, shape, classes, batch):
    torch.manual_seed(0)
    model = maker()
    with torch.no_grad():
        fill(model)
    model.train()
    for module in model.modules():
        assert not isinstance(module, nn.Dropout) or module.p == 0
    step = optimizer(model.parameters(), rate)
    x = example(shape, 0, batch * STEPS).view(STEPS, batch, *shape)
    labels = torch.from_numpy(
        numbers.integers(LABEL_STREAM, batch * STEPS, classes)).view(
            STEPS, batch)
    losses = []
    for i in range(STEPS):
        step.zero_grad()
        loss = nn.functional.cross_entropy(model(x[i]), labels[i])
        loss.backward()
        step.step()
        losses.append(loss.item())
    return losses


def make_training(name, maker, shape, classes, batch):
    torch.manual_seed(0)
    model = maker().eval()
    with torch.no_grad():
        ranges = fill(model)
        sample = example(shape, 0, 2)
    stored = export(name, model, sample, ranges)
    rates, losses = {}, {}
    for key, (optimizer, rate) in OPTIMIZERS.items():
        rates[key] = rate * FACTORS.get(name, 1)
        losses[key] = rounded(train(maker, optimizer, rates[key], shape,
                                    classes, batch))
    write(name, {"input_shape": shape, "classes": classes, "batch": batch,
                 "weights": stored, "rates": rates, "losses": losses})


def write(name, content):
    (DATA / f"{name}.json").write_text(json.dumps(content, indent=0) + "\n")
    print(name, "ok", flush=True)


def main():
    DATA.mkdir(exist_ok=True)
    torch.set_num_threads(1)
    wanted = sys.argv[1:]
    for name, arguments in models.INFERENCE.items():
        if not wanted or name in wanted:
            make_inference(name, *arguments)
    for name, arguments in models.TRAINING.items():
        if not wanted or name in wanted:
            make_training(name, *arguments)


if __name__ == "__main__":
    main()
