#!/usr/bin/python3
"""What does a request cost beside gRPC itself?

    infer_roundtrip.py BUILD_DIR

Runs `infer_roundtrip` on one server for these cases, each in turns with its peer:

    c1-..        the digits model; the peer is a bare gRPC echo of the same bytes
    null-..      a model that copies 16 floats; the peer is the echo
    image-..     a model that copies 3x224x224 floats; the peer is the echo
    http-..      the null model over HTTP with binary data; the peer is gRPC
    streams-..   the null model while 1,000 streams are idle; the peer has none

Each gives one JSON line a figure.
"""

import pathlib
import subprocess
import sys

import onnx
from onnx import TensorProto, helper

from daemon import HERE, Daemon

ROUNDS = 7
IDLE_STREAMS = 1000


def write_copy(path, sizes):
    """Writes a model whose output is its input."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *sizes])
             for name in ("input", "output")]
    node = helper.make_node("Identity", ["input"], ["output"])
    graph = helper.make_graph([node], "copy", ports[:1], ports[1:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, path)


def serve(daemon):
    daemon.cli("run", "examples/digits.yaml", "--data", "examples/data/digits.csv.gz")
    daemon.cli("models", "load", "digits", "--wait")
    for name, sizes in (("null", [16]), ("image", [3, 224, 224])):
        path = daemon.folder / f"{name}.onnx"
        write_copy(path, sizes)
        daemon.cli("models", "upload", name, path)


def main(build):
    with Daemon(build) as daemon:
        serve(daemon)
        http = f"127.0.0.1:{daemon.ports['http_port']}"
        pid = ["--server-pid", str(daemon.process.pid)]
        for case, model, flags in (
                ("", "digits", []),
                ("null-", "null", pid),
                ("image-", "image", []),
                ("http-", "null", ["--http", http, "--concurrency", "16"]),
                ("streams-", "null", ["--idle-streams", str(IDLE_STREAMS),
                                      "--concurrency", "64"])):
            subprocess.run(
                [pathlib.Path(build) / "benchmarks/infer_roundtrip", "--case", case,
                 "--address", daemon.address, "--model", model,
                 "--rounds", str(ROUNDS), *flags], check=True, cwd=HERE.parent)


if __name__ == "__main__":
    main(sys.argv[1])
