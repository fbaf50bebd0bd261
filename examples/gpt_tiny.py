#!/usr/bin/env python3
"""Writes the rows that examples/gpt_tiny.yaml trains on: the bytes of a text file
(data/licence.txt beside it, unless --text names another), and for each of them the
byte that follows.

  /usr/bin/python3 examples/gpt_tiny.py
  /usr/bin/python3 examples/gpt_tiny.py --text book.txt

Needs NumPy.
"""
import argparse
import pathlib
import sys

try:
    import numpy as np
except ImportError as missing:
    sys.exit(f"{sys.argv[0]}: {missing}. On Debian: apt-get install python3-numpy, and "
             "start it with /usr/bin/python3; elsewhere: pip install numpy")

FOLDER = pathlib.Path(__file__).resolve().parent
CONTEXT = 32  # bytes of a row, as in gpt_tiny.yaml
STRIDE = 16  # bytes from the start of a row to the start of the next one
HELD_OUT = 64  # rows at the end, as in gpt_tiny.yaml
SHARING = CONTEXT // STRIDE  # following rows that share bytes with a row


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--text", default=FOLDER / "data/licence.txt", type=pathlib.Path)
    parser.add_argument("--out", default=FOLDER / "out", type=pathlib.Path)
    options = parser.parse_args()
    stream = np.frombuffer(options.text.read_bytes(), np.uint8)
    windows = np.lib.stride_tricks.sliding_window_view(stream, CONTEXT + 1)[::STRIDE]
    # Rows that are held out must share no bytes with those that are trained on.
    windows = np.concatenate([windows[:-HELD_OUT - SHARING], windows[-HELD_OUT:]])
    options.out.mkdir(parents=True, exist_ok=True)
    np.savez(options.out / "bytes.npz", x=windows[:, :-1], y=windows[:, 1:])
    print(f"wrote {options.out}/bytes.npz: {len(windows)} rows of {CONTEXT} bytes")


if __name__ == "__main__":
    main()
