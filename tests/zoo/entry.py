"""One net of the zoo: what makes it, and an input for it."""
import dataclasses
from typing import Callable, Optional

import torch


@dataclasses.dataclass
class Net:
    name: str
    family: str
    # Returns the module. The seed is set before it is called.
    make: Callable[[], torch.nn.Module]
    # Returns the inputs of so many rows.
    inputs: Callable[[int], tuple]
    # How far numbers that are served may be from PyTorch's, as a share of the
    # largest number of the output.
    tolerance: float = 2e-4
    opset: int = 14
    learning_rate: float = 0.01
    # Changes the exported file, and returns it: other types, for example.
    convert: Optional[Callable] = None
    # Why the net is not trained here; empty if it is.
    untrained: str = ""
    # Whether rows depend on each other, so that the file has one batch size.
    whole: bool = False


def images(channels, height, width=None):
    return lambda rows: (torch.rand(rows, channels, height, width or height),)


def numbers(*shape):
    return lambda rows: (torch.randn(rows, *shape),)


def tokens(vocabulary, length):
    return lambda rows: (torch.randint(0, vocabulary, (rows, length)),)


def both(first, second):
    return lambda rows: (*first(rows), *second(rows))
