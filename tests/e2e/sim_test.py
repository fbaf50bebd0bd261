#!/usr/bin/env python3
"""gpupool sim replays traces with the real binary, and without a server."""
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402

TRACE = harness.ROOT / "examples/data/jobs.csv"


def sim(*arguments, code=0, stdin=b""):
    done = subprocess.run([harness.BIN / "gpupool", "sim", *map(str, arguments)],
                          capture_output=True, input=stdin, timeout=300)
    if done.returncode != code:
        raise AssertionError(f"{arguments} ended with {done.returncode}: {done.stderr}")
    return done.stdout.decode() if code == 0 else done.stderr.decode()


class Sim(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gpupool-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_a_trace_is_the_same_plain_compressed_and_piped(self):
        packed = self.folder / "jobs.csv.gz"
        packed.write_bytes(gzip.compress(TRACE.read_bytes()))
        pool = ("--nodes", 2, "--policy", "las", "-o", "json")
        plain = json.loads(sim("--trace", TRACE, *pool))
        self.assertEqual(12, plain["jobs"])
        for other in (json.loads(sim("--trace", packed, *pool)),
                      json.loads(sim("--trace", "-", *pool, stdin=packed.read_bytes()))):
            for key in ("mean_jct_s", "p99_jct_s", "makespan_s", "preemptions"):
                self.assertEqual(plain[key], other[key], key)

    def test_who_sees_run_times_ends_jobs_sooner(self):
        fifo, las, srs = json.loads(
            sim("--nodes", 4, "--jobs", 1500, "--load", 1, "--seed", 5,
                "--policy", "fifo,las,srs", "-o", "json"))
        self.assertLess(las["mean_jct_s"], fifo["mean_jct_s"])
        self.assertLess(srs["mean_jct_s"], las["mean_jct_s"])
        self.assertEqual(0, fifo["preemptions"])
        self.assertGreater(las["preemptions"], 0)

    def test_the_plot_is_well_formed_and_small(self):
        path = self.folder / "plot.svg"
        sim("--trace", TRACE, "--nodes", 2, "--policy", "fifo,easy,las,srs", "--plot", path)
        svg = xml.dom.minidom.parse(str(path)).documentElement
        texts = {t.firstChild.data for t in svg.getElementsByTagName("text") if t.firstChild}
        self.assertLessEqual({"fifo", "easy", "las", "srs", "days", "Jobs that wait"}, texts)
        self.assertLess(path.stat().st_size, 60_000)

    def test_packing_fills_a_pool_further(self):
        spread, best, pack = json.loads(
            sim("fill", "--machines", 8, "--jobs", 200, "--seeds", "3-5", "-o", "json"))
        self.assertEqual(["spread", "best-fit", "pack"],
                         [of["placement"] for of in (spread, best, pack)])
        self.assertGreater(pack["allocated"], spread["allocated"])
        self.assertEqual([3, 4, 5], [of["seed"] for of in pack["seeds"]])
        self.assertIn("ALLOCATED", sim("fill", "--machines", 2, "--placement", "pack"))

    def test_a_pool_from_files_is_filled(self):
        nodes, pods = self.folder / "nodes.csv", self.folder / "pods.csv.gz"
        nodes.write_text("cpu_milli,memory_mib,gpu,model\n8000,1024,2,T4\n8000,1024,0,\n")
        pods.write_bytes(gzip.compress(
            b"cpu_milli,memory_mib,num_gpu,gpu_milli\n1000,1,1,500\n"))
        files = ("--node-file", nodes, "--pod-file", pods)
        filled = json.loads(sim("fill", *files, "--tune", 1, "--placement", "pack",
                                "--unknown-mix", "-o", "json"))
        self.assertEqual(1, filled["allocated"])
        self.assertIn("go together", sim("fill", "--node-file", nodes, code=2))
        self.assertIn("42-", sim("fill", "--seeds", "42-", code=2))
        pods.write_bytes(b"cpu_milli,memory_mib,num_gpu,gpu_milli\n1000,1,1,0\n")
        text = sim("fill", *files, code=2)
        self.assertIn("pods.csv.gz", text)
        self.assertIn("line 2: gpu_milli is '0'", text)

    def test_errors_name_the_file_and_what_is_wrong(self):
        cut = self.folder / "cut.csv.gz"
        cut.write_bytes(gzip.compress(TRACE.read_bytes())[:-9])
        self.assertIn("cut.csv.gz is not a complete gzip file",
                      sim("--trace", cut, code=2))
        self.assertIn("line 2 of the trace: duration_s is '-1'",
                      sim("--trace", "-", code=2,
                          stdin=b"submit_s,gpus,duration_s\n0,1,-1\n"))
        self.assertIn("bert-1 needs 16 devices", sim("--trace", TRACE, code=2))


if __name__ == "__main__":
    harness.main()
