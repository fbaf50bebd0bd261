#!/usr/bin/env python3
"""Writes what examples/finetune_resnet18.yaml trains: a ResNet-18 as PyTorch
exports it, and a small set of labelled images of shapes.

  /usr/bin/python3 examples/finetune_resnet18.py
  /usr/bin/python3 examples/finetune_resnet18.py --weights resnet18-f37072fd.pth

Without --weights the network begins with random numbers. Needs PyTorch,
torchvision, onnx and NumPy.
"""
import argparse
import pathlib
import sys
import warnings

try:
    import numpy as np
    import onnx
    import torch
    import torchvision
except ImportError as missing:
    sys.exit(f"{sys.argv[0]}: {missing}. On Debian: apt-get install python3-torch "
             "python3-torchvision python3-onnx python3-numpy, and start it with "
             "/usr/bin/python3; elsewhere: pip install torch torchvision onnx numpy")

SIZE = 64
CLASSES = ("disc", "square", "triangle", "cross", "ring", "stripes")


def mask(kind, random):
    """Where the shape is in an image of SIZE x SIZE."""
    radius = random.uniform(18, 25)
    left, top = SIZE / 2 + random.uniform(-5, 5, 2)
    y, x = np.mgrid[:SIZE, :SIZE]
    x, y = (x - left) / radius, (y - top) / radius
    distance = np.hypot(x, y)
    square = np.maximum(abs(x), abs(y)) < 0.9
    return {
        "disc": distance < 1,
        "square": square,
        "triangle": (y < 0.8) & (abs(x) < (y + 1) / 2),
        "cross": square & (np.minimum(abs(x), abs(y)) < 0.3),
        "ring": (distance < 1) & (distance > 0.6),
        "stripes": square & (np.floor(y * 4) % 2 == 0),
    }[kind]


def image(kind, random):
    """A light shape on a dark ground, and noise: [3, SIZE, SIZE]."""
    ground = random.uniform(0, 80, 3)
    colour = random.uniform(150, 255, 3)
    inside = mask(kind, random)[None]
    pixels = np.where(inside, colour[:, None, None], ground[:, None, None])
    pixels = pixels + random.normal(0, 8, pixels.shape)
    return np.clip(np.rint(pixels), 0, 255).astype(np.uint8)


def write_images(path, count, random):
    labels = random.permutation(np.arange(count) % len(CLASSES)).astype(np.int64)
    images = np.stack([image(CLASSES[label], random) for label in labels])
    np.savez_compressed(path / "shapes.npz", x=images, y=labels)
    sample = np.stack([image(kind, random) for kind in CLASSES])
    np.save(path / "one_of_each.npy", sample.astype(np.float32))


def export(path, weights):
    """Batch norms stay nodes of their own, so that training can go on."""
    model = torchvision.models.resnet18()
    if weights:
        model.load_state_dict(torch.load(weights, map_location="cpu"))
    model.fc = torch.nn.Linear(model.fc.in_features, len(CLASSES))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            model, torch.zeros(2, 3, SIZE, SIZE), str(path), opset_version=14,
            input_names=["images"], output_names=["scores"],
            training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False,
            dynamic_axes={"images": {0: "batch"}, "scores": {0: "batch"}})
    onnx.checker.check_model(str(path))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parent / "out")
    parser.add_argument("--weights", help="state of torchvision's resnet18, as .pth")
    parser.add_argument("--images", type=int, default=480)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(1)
    export(arguments.out / "resnet18.onnx", arguments.weights)
    write_images(arguments.out, arguments.images, np.random.default_rng(1))
    print(f"""wrote resnet18.onnx, shapes.npz and one_of_each.npy to {arguments.out}. Next:
  gpupool datasets upload shapes {arguments.out}/shapes.npz
  gpupool submit examples/finetune_resnet18.yaml
  gpupool watch finetune-resnet18
  gpupool models promote finetune-resnet18 --model shapes --wait
  gpupool models infer shapes --input images={arguments.out}/one_of_each.npy \
--save {arguments.out}""")


if __name__ == "__main__":
    main()
