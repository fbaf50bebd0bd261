#!/usr/bin/env python3
"""Every command in the docs runs.

Blocks marked ```sh in README.md and docs/*.md are executed, file by file, in
order, by one bash from the root of the project, beside a running server (its
address in GPUPOOL_ADDRESS) and with the binaries in PATH. Blocks with another
mark are not commands to run here.
"""
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402


class Docs(harness.TestCase):
    def commands(self, path):
        return re.findall(r"^```sh\n(.*?)^```$", path.read_text(), re.M | re.S)

    def run_blocks(self, path, server):
        blocks = self.commands(path)
        script = "set -euo pipefail\n" + "\n".join(blocks)
        env = dict(os.environ, GPUPOOL_ADDRESS=server.address,
                   GPUPOOL_METRICS=f"127.0.0.1:{server.ports['metrics_port']}",
                   GPUPOOL_HTTP=f"127.0.0.1:{server.ports['http_port']}",
                   GPUPOOL_INSIDE_TEST="1", PATH=f"{harness.BIN}:{os.environ['PATH']}")
        return subprocess.run(["bash", "-c", script], cwd=harness.ROOT, env=env,
                              capture_output=True, text=True, timeout=300)

    def test_every_command_of_every_page_runs(self):
        pages = [harness.ROOT / "README.md", *sorted((harness.ROOT / "docs").glob("*.md"))]
        ran = 0
        for page in pages:
            if not self.commands(page):
                continue
            with self.subTest(page=page.name):
                server = self.start("--devices", "cpu:2")
                done = self.run_blocks(page, server)
                self.assertEqual(0, done.returncode,
                                 f"{page.name}\n{done.stdout[-2000:]}\n{done.stderr[-3000:]}")
                ran += 1
        self.assertGreaterEqual(ran, 2)

    def test_the_readme_names_the_two_commands(self):
        text = "\n".join(self.commands(harness.ROOT / "README.md"))
        self.assertIn("./dev demo", text)
        self.assertIn("./dev test", text)


if __name__ == "__main__":
    harness.main()
