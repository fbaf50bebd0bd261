"""Deterministic numbers that C++ makes as well, so that no weights need to be
stored: element i of a stream is shift + scale * u(i), u uniform in [-1, 1)
from 24 bits of splitmix64(i). The arithmetic is in double, then rounded to
float32; tests/conformance/pytorch/formula.h is the same formula."""

import numpy as np

MASK = (1 << 64) - 1


def splitmix64(index):
    with np.errstate(over="ignore"):
        z = (index + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def uniform(first, count, scale=1.0, shift=0.0):
    """Returns `count` float32 numbers of the stream from index `first`."""
    index = np.arange(first, first + count, dtype=np.uint64)
    bits = (splitmix64(index) >> np.uint64(40)).astype(np.float64)
    return (shift + scale * (bits / float(1 << 23) - 1.0)).astype(np.float32)


def integers(first, count, limit):
    """Returns `count` integers in [0, limit)."""
    index = np.arange(first, first + count, dtype=np.uint64)
    return (splitmix64(index) % np.uint64(limit)).astype(np.int64)
