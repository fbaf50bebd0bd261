#!/usr/bin/python3
"""Times a model in gpupool and in its peer, in turns, five times each, and
prints one JSON line per case with the medians.

    compare.py BUILD_DIR BENCH

"floor" is the time that the case's floating point operations, as the graph counts
them, take at these cores' peak rate of multiply-adds in registers. Only an
algorithm with fewer operations, such as Winograd's convolutions, is faster.
Without the peer (./dev bench --peers installs it) only our figure is printed.
"""

import json
import pathlib
import shutil
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROUNDS = 5
SECONDS = "1.5"
THREADS = "2"

# bench -> [(case, model, batch, optimizer or None)]
BENCHES = {
    "infer-resnet18": [("b1", "resnet18", 1, None), ("b8", "resnet18", 8, None)],
    "infer-mobilenet_v2": [("b1", "mobilenet_v2", 1, None)],
    "infer-encoder": [("b1", "encoder", 1, None), ("b8", "encoder", 8, None)],
    "infer-mlp": [("b1", "mlp", 1, None), ("b64", "mlp", 64, None)],
    "train-resnet18": [("b8", "resnet18", 8, "sgd")],
    "train-cnn": [("b64", "cnn", 64, "sgd")],
    "train-mlp": [("b64", "mlp", 64, "adam")],
    "train-encoder": [("b8", "encoder", 8, "adam")],
}

# Nets that people serve: infer-nets runs one row at a time.
NETS = {
    "efficientnet_b0": "3x224x224",
    "mnasnet1_0": "3x224x224",
    "regnet_y_400mf": "3x224x224",
    "shufflenet_v2_x1_0": "3x224x224",
    "inception_v3": "3x299x299",
    "convnext_tiny": "3x224x224",
    "r3d_18": "3x16x112x112",
    "yolo": "3x640x640",
    "gpt2": "128",
    "resnext50_32x4d": "3x224x224",
    "googlenet": "3x224x224",
    "vit_b_16": "3x224x224",
    "swin_t": "3x224x224",
    "maxvit_t": "3x224x224",
}
# ResNet-18 in 8 bits, and the same net in float32.
QUANTISED = {"resnet18_qdq": "3x224x224", "resnet18_folded": "3x224x224"}
BENCHES["infer-nets"] = [(net, net, 1, None) for net in (*NETS, *QUANTISED)]
BENCHES["infer-trees"] = [(f"forest b{n}", "forest", n, None)
                          for n in (1, 32, 1000)]
BENCHES["infer-codes"] = [(f"codes4 b{n}", "codes4", n, None)
                          for n in (1, 4, 16, 64)]
BENCHES["train-nets"] = [
    ("efficientnet_b0 b8", "efficientnet_b0", 8, "sgd"),
    ("regnet_y_400mf b8", "regnet_y_400mf", 8, "sgd"),
    ("r3d_18 b2", "r3d_18", 2, "sgd")]

SHAPES = {
    "resnet18": "3x224x224",
    "mobilenet_v2": "3x224x224",
    "encoder": "128x256",
    "mlp": "784",
    "cnn": "1x28x28",
}
OTHER_SHAPES = {**NETS, **QUANTISED, "forest": "50", "codes4": "2048"}


def run(command):
    """Returns the JSON object that the command prints last; None when it fails."""
    result = subprocess.run(command, capture_output=True, text=True)
    if result.returncode != 0:
        print(f"{command[0]} failed: {result.stderr.strip()[-400:]}",
              file=sys.stderr)
        return None
    return json.loads(result.stdout.strip().splitlines()[-1])


def ours_command(build, models, model, batch, optimizer):
    command = [str(build / "benchmarks/model_speed"),
               "train" if optimizer else "infer", str(models / f"{model}.onnx"),
               "--batch", str(batch), "--threads", THREADS,
               "--seconds", SECONDS]
    return command + (["--optimizer", optimizer] if optimizer else [])


def peer_command(build, models, model, batch, optimizer):
    """Returns the peer's command line, or None when it is not installed."""
    if optimizer:
        return ["/usr/bin/python3", str(HERE / "peers/torch_train.py"), model,
                str(batch), optimizer, THREADS, SECONDS]
    modules = build.parent / "peers/node_modules"
    if not (modules / "onnxruntime-node").exists() or not shutil.which("node"):
        return None
    shape = SHAPES.get(model) or OTHER_SHAPES[model]
    return ["node", str(HERE / "peers/ort_infer.mjs"), str(modules),
            str(models / f"{model}.onnx"), f"{batch}x{shape}", THREADS,
            SECONDS]


def peak_rate(build):
    """Returns the cores' limit in GFLOP/s."""
    return run([str(build / "benchmarks/model_speed"), "peak", "--threads",
                THREADS, "--seconds", "0.5"])["gflops"]


def compare(build, models, bench, case):
    name, model, batch, optimizer = case
    arguments = (build, models, model, batch, optimizer)
    commands = [ours_command(*arguments), peer_command(*arguments)]
    times = [[], []]
    work, peak = 0, 0
    for _ in range(ROUNDS):
        peak = max(peak, peak_rate(build))
        for side, command in enumerate(commands):
            if command is None:
                continue
            result = run(command)
            if result is None:
                commands[side] = None
            else:
                times[side].append(result["ms"])
                work = result["ms"] * result["gflops"] if side == 0 else work
    ours, peer = (round(statistics.median(t), 4) if t else None for t in times)
    print(json.dumps({
        "bench": bench, "case": name, "ours": ours, "peer": peer,
        "ratio": round(ours / peer, 3) if ours and peer else None,
        "unit": "ms", "floor": round(work / peak, 4)}), flush=True)
    return ours is not None


def median_of(command, key):
    """Returns the median of a figure over the rounds."""
    results = [run(command) for _ in range(ROUNDS)]
    return round(statistics.median(r[key] for r in results), 2)


def roofline(build, models):
    """Compares the achieved rate with oneDNN's own rate of products, in turns."""
    for kind in ("infer", "train"):
        ours = ours_command(build, models, "resnet18", 8,
                            "sgd" if kind == "train" else None)
        gemm = [str(build / "benchmarks/model_speed"), "gemm", "--threads",
                THREADS, "--seconds", "0.5"]
        rates = [[], []]
        for _ in range(ROUNDS):
            rates[0].append(run(ours)["gflops"])
            rates[1].append(run(gemm)["gflops"])
        a, b = (round(statistics.median(r), 1) for r in rates)
        print(json.dumps({"bench": "roofline", "case": f"resnet18 {kind} b8",
                          "ours": a, "peer": b, "ratio": round(a / b, 3),
                          "unit": "GFLOP/s"}), flush=True)
    return True


def start(build, models, model="resnet18", bench="compile"):
    """Measures the time from the file to the first result."""
    command = [str(build / "benchmarks/model_speed"), "start",
               str(models / f"{model}.onnx"), "--threads", THREADS]
    print(json.dumps({"bench": bench, "case": f"{model} b1",
                      "ours": median_of(command, "ms"), "peer": None,
                      "ratio": None, "unit": "ms"}),
          flush=True)
    return True


def load(build, models):
    """Does the same for a model of 650 MB."""
    return start(build, models, "gpt2", "load")


def plan(build, models):
    """Prints the planned arena over the largest sum of bytes that live at a time."""
    for model in SHAPES:
        result = run([str(build / "benchmarks/model_speed"), "plan",
                      str(models / f"{model}.onnx"), "--batch", "8"])
        for kind in ("infer", "train"):
            print(json.dumps({"bench": "plan", "case": f"{model} {kind} b8",
                              "ours": round(result[kind], 4), "peer": 1.0,
                              "ratio": round(result[kind], 4),
                              "unit": "arena / lower bound"}), flush=True)
    return True


def in_turns(commands):
    """Returns median milliseconds of each command; None for one that fails."""
    times = [[] for _ in commands]
    for _ in range(ROUNDS):
        for side, command in enumerate(commands):
            result = run(command) if command else None
            if result is None:
                commands[side] = None
            else:
                times[side].append(result["ms"])
    return [round(statistics.median(t), 4) if command else None
            for t, command in zip(times, commands)]


def ranks(build, _):
    """Compares two ranks of one thread with PyTorch's, and with one device with
    two threads."""
    fine = True
    for model, optimizer in (("mlp", "adam"), ("cnn", "sgd")):
        def ours(count, threads):
            return [str(build / "benchmarks/rank_speed"), model, "--ranks",
                    count, "--threads", threads, "--seconds", SECONDS]
        peer = ["/usr/bin/python3", str(HERE / "peers/torch_ddp.py"), model,
                "64", optimizer, "2", "1", SECONDS]
        two, one, theirs = in_turns([ours("2", "1"), ours("1", "2"), peer])
        for case, other in (("2 ranks", theirs),
                            ("2 ranks beside 1 with 2 threads", one)):
            print(json.dumps({
                "bench": "train-ranks", "case": f"{model} b64 {case}",
                "ours": two, "peer": other,
                "ratio": round(two / other, 3) if two and other else None,
                "unit": "ms"}), flush=True)
        fine = fine and two is not None
    return fine


SPECIAL = {"roofline": roofline, "compile": start, "load": load, "plan": plan,
           "train-ranks": ranks}


def make_models(models, bench):
    """Writes the ONNX files. False when PyTorch, which writes them, is missing."""
    names = {case[1] for case in BENCHES.get(bench, [])} or set(SHAPES)
    if bench == "load":
        names = {"gpt2"}
    result = subprocess.run(
        ["/usr/bin/python3", str(HERE / "peers/make_models.py"), str(models),
         *sorted(names)],
        capture_output=True, text=True)
    if result.returncode == 0:
        return True
    print("the models cannot be made; ./dev bench --peers installs PyTorch: "
          + result.stderr.strip()[-300:], file=sys.stderr)
    return False


def main():
    build, bench = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    models = build.parent / "bench-models"
    if not make_models(models, bench):
        return 0
    if bench in SPECIAL:
        return 0 if SPECIAL[bench](build, models) else 1
    fine = [compare(build, models, bench, case) for case in BENCHES[bench]]
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
