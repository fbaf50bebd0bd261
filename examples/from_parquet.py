#!/usr/bin/env python3
"""Converts a Parquet, Arrow or Feather file to one that gpupool reads.

  python3 examples/from_parquet.py rows.parquet rows.jsonl
  python3 examples/from_parquet.py rows.parquet rows.npz --label kind

JSON lines keep text, missing values and lists of numbers, and are written batch by
batch. NPZ is for numbers without missing values: all other columns are the features
`x`, the column of --label (by default the last) is `y`. Needs pyarrow, and NumPy for
NPZ. A file that cannot be converted is one line on standard error and exit code 2.
"""
import argparse
import json
import math
import pathlib
import sys

ROWS = 65536  # of a batch

try:
    import pyarrow
    import pyarrow.feather
    import pyarrow.parquet
except ImportError as missing:
    print(f"{sys.argv[0]}: {missing}. Install it with: pip install pyarrow", file=sys.stderr)
    sys.exit(2)


class Refused(Exception):
    """A file that cannot be converted, in words."""


def open_batches(path):
    """Returns the names of the columns and the batches of rows."""
    with open(path, "rb") as file:
        magic = file.read(6)
    if not magic:
        raise Refused(f"{path} is empty")
    if magic[:4] != b"PAR1" and magic[:4] != b"FEA1" and magic != b"ARROW1":
        raise Refused(f"{path} is neither a Parquet nor an Arrow or Feather file")
    if magic[:4] == b"PAR1":
        parquet = pyarrow.parquet.ParquetFile(path)
        return parquet.schema_arrow.names, parquet.iter_batches(batch_size=ROWS)
    table = pyarrow.feather.read_table(path)
    return table.column_names, table.to_batches(max_chunksize=ROWS)


def plain(value):
    """Returns a value as JSON has it: times as text, NaN and infinity as null."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, list):
        return [plain(item) for item in value]
    if value is None or isinstance(value, (bool, int, str)):
        return value
    return str(value)


def write_json_lines(batches, out):
    rows = 0
    with open(out, "w", encoding="utf-8") as file:
        for batch in batches:
            for row in batch.to_pylist():
                line = {name: plain(value) for name, value in row.items()}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")
                rows += 1
    return rows


def write_npz(names, batches, label, out):
    import numpy as np
    if not names:
        raise Refused("the file has no columns")
    label = names[-1] if label is None else label
    if label not in names:
        raise Refused(f"no column {label!r}; the file has {', '.join(names) or 'none'}")
    if len(names) < 2:
        raise Refused(f"the only column is {label!r}; the features need another one")
    features, labels = [], []
    for batch in batches:
        columns = {}
        for name, column in zip(names, batch.columns):
            columns[name] = column.to_numpy(zero_copy_only=False)
            if column.null_count or columns[name].dtype.kind not in "biuf":
                raise Refused(f"column {name!r} has text, lists or missing values; "
                              "write .jsonl")
        labels.append(columns.pop(label))
        features.append(np.stack([c.astype(np.float32) for c in columns.values()], 1))
    if not features:
        raise Refused("the file has no rows")
    np.savez(out, x=np.concatenate(features), y=np.concatenate(labels))
    return sum(map(len, labels))


def convert(options):
    """Writes options.out. Returns the names of the columns and the number of rows."""
    if options.out.exists() and options.out.samefile(options.file):
        raise Refused(f"{options.out} is the file itself; write another one")
    names, batches = open_batches(options.file)
    if options.out.suffix == ".jsonl":
        return names, write_json_lines(batches, options.out)
    return names, write_npz(names, batches, options.label, options.out)


def main():
    parser = argparse.ArgumentParser(
        description="Converts a Parquet, Arrow or Feather file for gpupool.")
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path, help="ends in .jsonl or .npz")
    parser.add_argument("--label", help="NPZ: the column of the label, by default the last")
    options = parser.parse_args()
    if options.out.suffix not in (".jsonl", ".npz"):
        parser.error(f"{options.out} ends in neither .jsonl nor .npz")
    try:
        names, rows = convert(options)
    except Refused as refused:
        parser.exit(2, f"{parser.prog}: {refused}\n")
    except (pyarrow.ArrowException, OSError, ValueError, MemoryError, ImportError) as error:
        # What pyarrow says may have several lines.
        reason = " ".join(str(error).split()) or type(error).__name__
        parser.exit(2, f"{parser.prog}: {options.file}: {reason}\n")
    print(f"{options.out}: {rows} rows of {len(names)} columns")


if __name__ == "__main__":
    main()
