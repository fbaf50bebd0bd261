#!/usr/bin/python3
"""Writes the models of the benchmarks as ONNX files.

    make_models.py FOLDER [NAME...]

Without names, writes those of bench_models.py. Needs python3-torch and
python3-torchvision, and python3-onnx for those of operator_models.py. Weights are
random, batch norms are kept as they are in training, and the first dimension is the
batch."""

import pathlib
import sys

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/conformance/pytorch"))
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import bench_models  # noqa: E402
import net_models  # noqa: E402


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    known = {**bench_models.MODELS, **net_models.NETS}
    for name in sys.argv[2:] or bench_models.MODELS:
        path = folder / f"{name}.onnx"
        if path.exists():
            continue
        if name not in known:
            import operator_models
            operator_models.WRITERS[name](str(path))
            continue
        maker, shape = known[name]
        torch.manual_seed(0)
        model = maker().eval()
        part = path.with_suffix(".part")
        torch.onnx.export(
            model, torch.randn(2, *shape), str(part), opset_version=14,
            input_names=["input"], output_names=["output"],
            training=torch.onnx.TrainingMode.PRESERVE,
            do_constant_folding=False,
            dynamic_axes={"input": {0: "batch"}, "output": {0: "batch"}})
        part.rename(path)


if __name__ == "__main__":
    main()
