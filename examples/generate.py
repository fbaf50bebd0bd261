#!/usr/bin/env python3
"""Lets the served decoder of make_decoder.py continue a text, one token at a time,
with its cache.

  /usr/bin/python3 examples/generate.py decoder --tokens 20
  /usr/bin/python3 examples/generate.py windows --tokens 20 --windows 8,32

The first request has the whole text and an empty cache. Each later request has one
token and the cache that the answer before brought. With --windows the cache has one
of these lengths: it is filled up with zeros at its front, which the mask hides, so
that the server needs one program for each length only.
"""
import argparse
import pathlib
import subprocess
import tempfile

import numpy as np

LAYERS, HEADS, HEAD = 2, 2, 8


def infer(model, folder, inputs):
    """Returns the outputs of one request."""
    command = ["gpupool", "models", "infer", model, "--save", str(folder)]
    for name, array in inputs.items():
        np.save(folder / f"{name}.npy", array)
        command += ["--input", f"{name}={folder / name}.npy"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    names = [f"present.{i}.{kind}" for i in range(LAYERS) for kind in ("key", "value")]
    return {name: np.load(folder / f"{name}.npy") for name in ["logits", *names]}


def generate(model, folder, text, count, windows):
    """Returns the text and `count` more tokens, each the one with the best score."""
    cache = {f"past_key_values.{i}.{kind}": np.zeros((1, HEADS, 0, HEAD), np.float32)
             for i in range(LAYERS) for kind in ("key", "value")}
    tokens, new = list(text), list(text)
    if windows:
        new = tokens[:1]
    while True:
        past = next(iter(cache.values())).shape[2]
        filled = next((w for w in windows if w >= past), past) - past
        mask = np.ones((1, filled + past + len(new)), np.int64)
        mask[:, :filled] = 0
        front = ((0, 0), (0, 0), (filled, 0), (0, 0))
        outputs = infer(model, folder, {
            "input_ids": np.array([new]), "attention_mask": mask,
            **{name: np.pad(part, front) for name, part in cache.items()}})
        cache = {name.replace("present", "past_key_values"): part[:, :, filled:]
                 for name, part in outputs.items() if name != "logits"}
        seen = past + len(new)
        if seen == len(tokens):
            if len(tokens) == len(text) + count:
                return tokens
            tokens.append(int(outputs["logits"][0, -1].argmax()))
        new = tokens[seen:seen + 1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("model")
    parser.add_argument("--text", default="3,1,4", help="the first tokens")
    parser.add_argument("--tokens", type=int, default=20, help="how many to add")
    parser.add_argument("--windows", default="", help="lengths of the cache")
    options = parser.parse_args()
    text = [int(token) for token in options.text.split(",")]
    windows = [int(window) for window in options.windows.split(",") if window]
    with tempfile.TemporaryDirectory() as folder:
        print(*generate(options.model, pathlib.Path(folder), text, options.tokens, windows))


if __name__ == "__main__":
    main()
