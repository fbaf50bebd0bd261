#!/usr/bin/env python3
"""The memory tools through the real processes: dumps that PyTorch reads, shares
of a device, and what a job says that got no memory."""
import json
import pathlib
import pickle
import signal
import subprocess
import sys
import xml.dom.minidom

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402


class Memory(harness.TestCase):
    def blobs(self, server):
        return {p.name for p in (server.state / "blobs").iterdir()}

    def test_a_dump_of_a_training_job_is_a_snapshot_of_pytorchs(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        server.cli("devices", "history", "cpu:0", "on", "--max-entries", "5000")
        job = server.submit(harness.digits_job("long", steps=1000000,
                                               checkpoint_every_steps=0))
        server.wait_step(job, 20)
        before = self.blobs(server)
        path = server.state / "memory.pickle"
        self.assertIn("memory.pickle", server.cli("devices", "dump", "cpu:0", "-O", path))
        self.assertEqual(before, self.blobs(server), "the server keeps no dump")
        snapshot = pickle.loads(path.read_bytes())
        self.assertLessEqual({"segments", "device_traces"}, set(snapshot))
        owners = {(frame["filename"], frame["name"])
                  for segment in snapshot["segments"] for block in segment["blocks"]
                  for frame in block["frames"]}
        self.assertIn((f"job {job}", "weights"), owners)
        actions = {event["action"] for event in snapshot["device_traces"][0]}
        self.assertLessEqual({"alloc", "segment_map"}, actions)
        check = subprocess.run(
            ["/usr/bin/python3", harness.ROOT / "tests/engine/memory/check_snapshot.py",
             path, "0"], capture_output=True, text=True)
        self.assertEqual(0, check.returncode, check.stdout + check.stderr)
        server.cli("devices", "dump", "cpu:0", "--segments", "-O", path)
        segments = pickle.loads(path.read_bytes())
        self.assertEqual([s["address"] for s in snapshot["segments"]],
                         [s["address"] for s in segments])
        self.read_with_pytorch(path)
        server.cli("devices", "history", "cpu:0", "off")
        server.cli("devices", "dump", "cpu:0", "-O", path)
        self.assertEqual([[]], pickle.loads(path.read_bytes())["device_traces"])

    def test_a_snapshot_is_drawn_with_its_blocks_and_its_history(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        path = server.state / "blocks.svg"

        def texts():
            said = server.cli("devices", "memory", "cpu:0", "--snapshot", "-O", path)
            self.assertIn("blocks.svg: ", said)
            picture = xml.dom.minidom.parse(str(path))  # which must be well-formed
            self.assertEqual("svg", picture.documentElement.tagName)
            return [node.firstChild.data for name in ("text", "title")
                    for node in picture.getElementsByTagName(name)]
        self.assertTrue(any("No history is recorded" in text for text in texts()))
        server.cli("devices", "history", "cpu:0", "on")
        job = server.submit(harness.digits_job("long", steps=1000000,
                                               checkpoint_every_steps=0))
        server.wait_step(job, 20)
        drawn = texts()
        for text in ("History of cpu:0", "allocated", "reserved"):
            self.assertIn(text, drawn)
        for start in (f"job {job} / arena, ", "arena ", "weights ", "free "):
            self.assertTrue(any(text.startswith(start) for text in drawn), drawn)
        # The newest point is the present.
        pb2, grpc_pb2 = harness.stubs()("gpupool.v1.device")
        with server.channel() as channel:
            snapshot = grpc_pb2.DeviceServiceStub(channel).GetMemorySnapshot(
                pb2.GetMemorySnapshotRequest(device="cpu:0", with_timeline=True))
        stats = server.json("devices", "memory", "cpu:0")
        self.assertEqual(int(stats["allocated_bytes"]),
                         snapshot.timeline[-1].allocated_bytes)
        server.cli("cancel", job)
        server.wait_job(job)

    def read_with_pytorch(self, path):
        torch = subprocess.run(
            ["/usr/bin/python3", "-c", "import torch; print(torch.__version__)"],
            capture_output=True, text=True)
        if torch.returncode != 0:
            print("no torch in /usr/bin/python3: its viewer is not asked")
            return
        viewed = subprocess.run(
            ["/usr/bin/python3", "-m", "torch.cuda._memory_viz", "stats", path],
            capture_output=True, text=True)
        self.assertEqual(0, viewed.returncode, viewed.stderr)
        # PyTorch 1 prints sums by state, PyTorch 2 a table.
        self.assertRegex(viewed.stdout, "active_allocated|total_allocated")

    def test_every_figure_has_its_name_in_pytorch(self):
        server = self.start("--devices", "cpu:1")
        stats = server.json("devices", "memory", "cpu:0")
        named = stats["by_pytorch_name"]
        for figure in ("allocation", "segment", "active", "inactive_split",
                       "allocated_bytes", "reserved_bytes", "active_bytes",
                       "inactive_split_bytes", "requested_bytes"):
            for pool in ("all", "small_pool", "large_pool"):
                for value in ("current", "peak", "allocated", "freed"):
                    self.assertIn(f"{figure}.{pool}.{value}", named)
        for count in ("num_alloc_retries", "num_ooms", "num_sync_all_streams",
                      "num_device_alloc", "num_device_free"):
            self.assertIn(count, named)
        table = server.cli("devices", "memory", "cpu:0", "--all", "--no-headers")
        self.assertEqual(len(named), len(table.splitlines()))

    def test_a_watch_draws_the_memory_that_a_job_takes(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        picture = server.state / "memory.svg"
        watch = subprocess.Popen(
            [harness.BIN / "gpupool", "--address", server.address, "devices", "memory",
             "cpu:0", "--watch", "--interval", "0.1", "-O", picture],
            stdout=subprocess.PIPE, text=True)
        self.addCleanup(watch.kill)
        self.assertIn("ALLOCATED", watch.stdout.readline())
        job = server.submit(harness.digits_job("long", steps=1000000,
                                               checkpoint_every_steps=0))
        for row in watch.stdout:
            if f"job {job} / " in row:
                break
        watch.send_signal(signal.SIGINT)
        watch.stdout.read()
        self.assertEqual(0, watch.wait(120))
        self.assertIn("Memory of cpu:0", picture.read_text())

    def test_a_job_waits_for_a_larger_share_of_the_device(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        server.cli("devices", "fraction", "cpu:0", "0.00001")
        job = server.submit(harness.digits_job(steps=30))
        server.wait_why(job, "a memory fraction of 1e-05 keeps it off cpu:0")
        server.cli("devices", "fraction", "cpu:0", "1")
        job = server.wait_job(job)
        self.assertEqual("SUCCEEDED", job["state"], job)
        self.assertEqual(0, int(server.json("devices", "memory", "cpu:0")
                                .get("out_of_memory", 0)))
        refused = server.cli("devices", "fraction", "cpu:0", "2", code=2)
        self.assertIn("at most 1", refused)


if __name__ == "__main__":
    harness.main()
