#!/usr/bin/env python3
"""The daemon links no engine and no CUDA; the client links neither.

    link_test.py BIN_DIR
"""
import pathlib
import re
import subprocess
import sys
import unittest

BIN = pathlib.Path(sys.argv.pop(1))
BASE = pathlib.Path(__file__).resolve().parents[2] / "engine" / "base"


def base_names():
    """Every name in the code of engine/base, which any program may use."""
    code = "\n".join(re.sub(r"//.*", "", file.read_text())
                     for file in BASE.glob("*.[hc]*"))
    return set(re.findall(r"\w+", code))


BASE_NAMES = base_names()


def symbols(binary):
    out = subprocess.run(["nm", "-C", "--defined-only", str(BIN / binary)],
                         capture_output=True, text=True, check=True).stdout
    return [line.split(" ", 2)[-1] for line in out.splitlines()]


def engine_names(symbol):
    """The names in a symbol that stand directly in gpupool::engine."""
    return re.findall(r"gpupool::engine::(?:\(anonymous namespace\)::)?(\w+)", symbol)


def libraries(binary):
    return subprocess.run(["ldd", str(BIN / binary)], capture_output=True,
                          text=True, check=True).stdout


class Link(unittest.TestCase):
    def engine_symbols(self, binary):
        return [s for s in symbols(binary)
                if not BASE_NAMES.issuperset(engine_names(s))]

    def test_daemon_and_client_have_no_engine_symbol(self):
        for binary in ("gpupoold", "gpupool"):
            self.assertEqual([], self.engine_symbols(binary)[:5], binary)

    def test_daemon_and_client_link_no_kernel_library(self):
        for binary in ("gpupoold", "gpupool"):
            for name in ("dnnl", "cuda", "cudnn", "cublas", "nccl", "gomp"):
                self.assertNotIn(name, libraries(binary), binary)

    def test_worker_has_the_engine_and_no_grpc(self):
        self.assertTrue(self.engine_symbols("gpupool-worker"))
        self.assertNotIn("libgrpc", libraries("gpupool-worker"))

    def test_sentencepiece_and_protobuf_are_in_no_program_together(self):
        # libsentencepiece exports an older protobuf under the same names.
        for binary in ("gpupoold", "gpupool", "gpupool-worker"):
            self.assertNotIn("libsentencepiece", libraries(binary), binary)
        self.assertIn("libsentencepiece", libraries("gpupool-tokenizer"))
        self.assertNotIn("libprotobuf", libraries("gpupool-tokenizer"))


if __name__ == "__main__":
    unittest.main()
