#!/usr/bin/env python3
"""The installed C++ client library, as a program of somebody else finds it."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402


def run(*command):
    done = subprocess.run([str(part) for part in command], text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}"
    return done.stdout


class CppClient(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpupool_cpp_"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.prefix = cls.folder / "prefix"
        for part in ("programs", "client"):
            run("cmake", "--install", harness.BIN.parent, "--prefix", cls.prefix,
                "--component", part)

    def test_the_example_trains_and_asks(self):
        build = self.folder / "example"
        run("cmake", "-G", "Ninja", "-S", harness.ROOT / "examples/cpp", "-B", build,
            f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", build)
        server = self.start("--devices", "cpu:1")
        out = run(build / "train_and_ask", harness.DIGITS, server.address)
        self.assertRegex(out, r"step 440 of 440, loss 0\.\d+")
        right, rows = re.search(r"(\d+) of (\d+) images are read right",
                                out).groups()
        self.assertEqual("1797", rows)
        self.assertGreater(int(right), 1700)

    def test_every_public_header_stands_in_the_prefix(self):
        headers = self.prefix / "include/gpupool"
        page = (harness.ROOT / "docs/cpp_client.md").read_text()
        named = re.findall(r"`(client/[\w/]+\.h)`", page)
        self.assertLess(6, len(named))
        for name in named:
            self.assertTrue((headers / name).is_file(), name)
        installed = {str(path.relative_to(headers))
                     for path in headers.rglob("*.h")}
        for path in headers.glob("client/**/*.h"):
            for include in re.findall(r'#include "((?:client|gpupool|inference)/[^"]+)"',
                                      path.read_text()):
                self.assertIn(include, installed, path)

    def test_no_installed_file_names_the_source(self):
        for path in self.prefix.rglob("*.cmake"):
            self.assertNotIn(str(harness.ROOT) + os.sep, path.read_text(), path)

    def test_the_installed_programs_run(self):
        out = run(self.prefix / "bin/gpupool", "version", "--client")
        self.assertIn("client: ", out)


if __name__ == "__main__":
    harness.main()
