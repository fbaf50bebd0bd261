"""The models of the benchmarks, as PyTorch writes them."""

import torchvision
from torch import nn

from models import Cnn, Transformer


def mlp():
    return nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


# name -> (maker, shape of one example)
MODELS = {
    "resnet18": (lambda: torchvision.models.resnet18(weights=None),
                 [3, 224, 224]),
    "mobilenet_v2": (lambda: torchvision.models.mobilenet_v2(weights=None),
                     [3, 224, 224]),
    "encoder": (lambda: Transformer(width=256, heads=4, layers=4, tokens=128),
                [128, 256]),
    "mlp": (mlp, [784]),
    "cnn": (lambda: Cnn(width=32), [1, 28, 28]),
}
