"""What happens to one net: exported by PyTorch, checked, served, exported again,
trained. Every step ends with a number or with the words of a refusal."""
import contextlib
import copy
import io
import json
import math
import pathlib
import subprocess
import warnings

import numpy as np
import onnx
import torch
from torch import nn

ROWS, STEPS, MOMENTUM = 4, 20, 0.9


class Refused(Exception):
    """The words of the server, or of PyTorch's exporter."""


def words(text):
    """Returns the first line of an error that says something, without paths."""
    lines = [line.strip() for line in text.strip().splitlines() if line.strip()]
    found = [line for line in lines if line.startswith("gpupool:")] or lines[:1]
    return (found or ["no message"])[0].removeprefix("gpupool: ")[:300]


class Scores(nn.Module):
    """Leaves out dropout, and gives the part of the output that a loss reads."""

    def __init__(self, net):
        super().__init__()
        self.net = net
        for module in net.modules():
            if isinstance(module, (nn.Dropout, nn.Dropout2d, nn.Dropout3d)):
                module.p = 0.0
            if type(module).__name__ == "StochasticDepth":
                module.p = 0.0

    def forward(self, *inputs):
        return self.net(*inputs)


def export(net, module, inputs, path, training=False):
    names = [f"input_{i}" for i in range(len(inputs))]
    axes = {} if net.whole else {name: {0: "batch"} for name in [*names, "output"]}
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        try:
            torch.onnx.export(
                module, inputs, str(path), opset_version=net.opset, input_names=names,
                output_names=["output"], dynamic_axes=axes,
                training=(torch.onnx.TrainingMode.PRESERVE if training
                          else torch.onnx.TrainingMode.EVAL),
                do_constant_folding=False)
        except Exception as error:  # noqa: BLE001: whatever the exporter says
            raise Refused(f"PyTorch does not export it: {words(str(error))}") from None
    if net.convert is not None:
        model = net.convert(onnx.load(str(path)))
        onnx.save(model, str(path))
    return names


def difference(got, expected):
    """Returns the largest difference as a share of the largest number."""
    if got.shape != expected.shape:
        raise Refused(f"shape {list(got.shape)} instead of {list(expected.shape)}")
    if expected.size == 0:
        return 0.0
    largest = max(np.abs(expected).max(), 1e-6)
    wide = got.astype(np.float64) - expected.astype(np.float64)
    return float(np.abs(wide).max() / largest)


class Pool:
    """A running server, called by the command line."""

    def __init__(self, server, folder):
        self.server, self.folder = server, pathlib.Path(folder)

    def run(self, *arguments, code=0):
        import harness
        try:
            return self.server.cli(*arguments, code=code, timeout=600)
        except harness.CommandFailed as failed:
            raise Refused(words(failed.stderr or failed.stdout)) from None
        except subprocess.TimeoutExpired:
            raise Refused("no answer within 600 s") from None

    def serve(self, name, path, inputs):
        """Uploads the file, sends the inputs and returns the output."""
        self.run("models", "upload", name, path, "--max-batch-size", ROWS, "--timeout", "9m")
        try:
            return self.infer(name, inputs)
        finally:
            with contextlib.suppress(Refused):
                self.run("models", "unload", name)

    def infer(self, name, inputs):
        arguments = []
        for i, array in enumerate(inputs):
            file = self.folder / f"input_{i}.npy"
            np.save(file, array)
            arguments += ["--input", f"input_{i}={file}"]
        out = self.folder / "out"
        for old in out.glob("*.npy"):
            old.unlink()
        self.run("models", "infer", name, *arguments, "--save", out)
        return np.load(next(out.glob("*.npy")))


def counted(module):
    return sum(p.numel() for p in module.parameters())


def torch_losses(module, inputs, target, rate):
    """Returns the losses of the steps that PyTorch takes."""
    module.train()
    optimizer = torch.optim.SGD(module.parameters(), lr=rate, momentum=MOMENTUM)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        y = module(*inputs)
        loss = (nn.functional.cross_entropy(y, target) if target.dtype == torch.int64
                else nn.functional.mse_loss(y, target))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def buffers(module, path):
    """Returns the stored tensors that PyTorch does not train. In the file they look
    like weights."""
    stored = {tensor.name for tensor in onnx.load(str(path)).graph.initializer}
    return [name for name, tensor in module.named_buffers()
            if name in stored and tensor.is_floating_point() and ".running_" not in name]


def job(pool, net, module, path, classes):
    """Returns the losses of the same steps of a job."""
    name, rate = net.name, net.learning_rate
    frozen = json.dumps(buffers(module, path))
    loss = "cross_entropy" if classes else "mean_squared_error"
    spec = f"""
name: {name}
model: {{onnx: {path}}}
data: {{dataset: {name}}}
training:
  loss: {loss}
  sgd: {{learning_rate: {rate}, momentum: {MOMENTUM}}}
  batch_size: {ROWS}
  steps: {STEPS}
  report_every_steps: 1
  freeze: {frozen}
retry: {{max_attempts: 1}}
"""
    file = pool.folder / "job.yaml"
    file.write_text(spec)
    number = json.loads(pool.run("submit", file, "-o", "json"))["id"]
    pool.server.wait_job(number, seconds=600)
    losses = {}
    for line in pool.run("watch", number, "-o", "json").splitlines():
        progress = json.loads(line).get("progress")
        if progress and "loss" in progress:
            losses[int(progress["step"])] = float(progress["loss"])
    done = pool.server.job(number)
    if done["state"] != "SUCCEEDED":
        raise Refused(words(json.dumps(done.get("error", {}).get("message", done["state"]))))
    return losses


def apart(got, expected, who="the job"):
    """Returns the largest difference of the losses of all steps, as a share of the
    first loss. `got`: those of `who`, by step. Every step must have a finite loss
    on both sides."""
    steps = range(1, STEPS + 1)
    missing = [step for step in steps if step not in got]
    if missing:
        raise Refused(f"{who} reported no loss of steps {missing}")
    beyond = sorted(set(got) - set(steps))
    if beyond or len(expected) != STEPS:
        raise Refused(f"{who} reported losses of steps {beyond} beyond {STEPS}, and "
                      f"PyTorch has {len(expected)}")
    for name, losses in ((who, got), ("PyTorch", dict(enumerate(expected, 1)))):
        wrong = {step: losses[step] for step in steps if not math.isfinite(losses[step])}
        if wrong:
            raise Refused(f"{name} has losses that are not finite, by step: {wrong}")
    return max(abs(got[s] - expected[s - 1]) for s in steps) / max(expected[0], 1e-3)


def train(net, pool, folder, row):
    """Returns how far the losses are from PyTorch's. Adds to the row how far PyTorch
    in float32 is from PyTorch in float64: steps that amplify rounding have no better
    result."""
    torch.manual_seed(1)
    module = Scores(net.make())
    inputs = net.inputs(ROWS)
    path = folder / f"{net.name}.train.onnx"
    # In evaluation PyTorch stores equal weights once, which ties them.
    module.train()
    export(net, module, inputs, path, training=True)
    with torch.no_grad():
        y = module(*inputs)
    classes = y.dim() == 2 and y.shape[1] > 1
    target = (torch.randint(0, y.shape[1], (ROWS,)) if classes
              else torch.randn(y.shape) * 0.1)
    wide = [x.double() if x.is_floating_point() else x for x in inputs]
    exact = torch_losses(copy.deepcopy(module).double(), wide,
                         target.double() if not classes else target, net.learning_rate)
    expected = torch_losses(module, inputs, target, net.learning_rate)
    row["own"] = apart(dict(enumerate(exact, 1)), expected, "PyTorch in float64")
    data = folder / f"{net.name}.npz"
    np.savez(data, x=inputs[0].numpy(), y=target.numpy())
    pool.run("datasets", "upload", net.name, data)
    return apart(job(pool, net, module, path, classes), expected)


def measure(net, pool, folder):
    """Returns the row of the table for one net."""
    row = {"name": net.name, "family": net.family}
    torch.manual_seed(1)
    module = net.make().eval()
    inputs = net.inputs(ROWS)
    row["parameters"] = counted(module)
    path = folder / f"{net.name}.onnx"

    def step(key, function):
        try:
            row[key] = function()
            return True
        except Refused as refused:
            row[key] = str(refused)
            return False

    with torch.no_grad():
        expected = module(*inputs).numpy()
    if not step("made", lambda: bool(export(net, module, inputs, path))):
        return row
    arrays = [x.numpy() for x in inputs]
    if net.convert is not None and net.family == "fp16":
        arrays = [a.astype(np.float16) if a.dtype == np.float32 else a for a in arrays]
    served = {}

    def serve():
        served["y"] = pool.serve(net.name, path, arrays)
        return difference(served["y"], expected)

    def again():
        file = folder / f"{net.name}.exported.onnx"
        pool.run("models", "export", net.name, "-O", file)
        onnx.checker.check_model(str(file))
        return difference(pool.serve(f"{net.name}-again", file, arrays), served["y"])

    step("checked", lambda: bool(pool.run("models", "check", path)))
    if step("served", serve):
        step("exported", again)
    if net.untrained:
        row["trained"] = f"left out: {net.untrained}"
    else:
        step("trained", lambda: train(net, pool, folder, row))
    return row
