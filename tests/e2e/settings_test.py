#!/usr/bin/env python3
"""Settings of the daemon: lists in the configuration file, limits of uploads,
and what a wrong file says."""
import hashlib
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402

LISTS = """\
devices: [cpu:2]
order: fair
min_run: 0
model-limit: 1000
dataset-limit: 100KiB
tenants:
  - {name: research, weight: 3}
  - {name: research.vision, most: 1}
queues:
  - name: urgent
    order: srs
    rank: 10
    preempts: yes
    tenants: [shop, research]
  - {name: second, devices: [cpu:1], most: 1}
"""
LINES = """\
devices: cpu:2
order: fair
min-run: 0
tenants: research:weight=3;research.vision:most=1
queues: urgent:order=srs,rank=10,preempts=yes,tenants=shop+research;second:devices=cpu:1,most=1
"""


class Settings(harness.TestCase):
    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return pathlib.Path(folder.name)

    def write(self, text):
        path = self.folder() / "gpupoold.yaml"
        path.write_text(text)
        return path

    def queues(self, server):
        return server.json("queues")["queues"]

    def refused(self, text, *fragments):
        done = subprocess.run(
            [harness.BIN / "gpupoold", "--config", self.write(text)],
            capture_output=True, text=True, timeout=60)
        self.assertEqual(64, done.returncode, done.stderr)
        for fragment in fragments:
            self.assertIn(fragment, done.stderr)

    def assert_tenants(self, server):
        """research.vision may use at most one of two devices."""
        spec = harness.digits_job("part", steps=2000000, checkpoint_every_steps=0)
        first, second = (server.submit(spec + "tenant: research.vision\n")
                         for _ in range(2))
        server.wait_job(first, ("RUNNING",))
        self.assertIn("research.vision", server.job(second)["waiting_reason"])
        server.cli("cancel", second)
        server.cli("cancel", first)

    def test_lists_of_the_file_are_in_force_and_say_what_lines_say(self):
        lists = self.start("--config", self.write(LISTS))
        found = self.queues(lists)
        self.assertEqual(["urgent", "second", "default"], [q["name"] for q in found])
        self.assertEqual("srs", found[0]["order"])
        self.assertEqual(["shop", "research"], found[0]["tenants"])
        self.assertEqual(["cpu:1"], found[1]["devices"])
        policy = lists.json("queues")
        self.assertEqual("fair", policy["order"])
        lists.upload_digits()
        job = lists.submit(harness.digits_job("queued", steps=5) + "queue: second\n")
        self.assertEqual("SUCCEEDED", lists.wait_job(job)["state"])
        self.assertEqual("cpu:1", lists.job(job)["device"])
        self.assert_tenants(lists)
        self.assertEqual(0, lists.terminate())

        lines = self.start("--config", self.write(LINES))
        self.assertEqual(policy, lines.json("queues"))

    def test_flags_win_over_lists(self):
        server = self.start("--config", self.write(LISTS), "--queues", "other:rank=1")
        self.assertEqual(["other", "default"], [q["name"] for q in self.queues(server)])

    def test_uploads_beyond_their_limits_are_refused_with_the_remedy(self):
        import grpc
        server = self.start("--config", self.write(LISTS))
        pb2, grpc_pb2 = harness.stubs()("gpupool.v1.model")
        models = grpc_pb2.ModelServiceStub(server.channel())

        def upload(size):
            data = b"x" * size
            header = pb2.UploadModelFileRequest.Header(
                total_bytes=size, sha256=hashlib.sha256(data).hexdigest())
            return models.UploadModelFile(iter(
                [pb2.UploadModelFileRequest(header=header),
                 pb2.UploadModelFileRequest(chunk=data)]))
        self.assertEqual(1000, upload(1000).bytes)
        with self.assertRaises(grpc.RpcError) as raised:
            upload(1001)
        self.assertEqual(grpc.StatusCode.RESOURCE_EXHAUSTED, raised.exception.code())
        refused = raised.exception.details()
        self.assertIn("1001 bytes, this server takes at most 1000", refused)
        self.assertIn("--model-limit", refused)
        folder = self.folder()
        (folder / "rows.csv").write_text("1,2,3\n" * 20000)
        refused = server.cli("datasets", "upload", "rows", folder / "rows.csv", code=7)
        self.assertIn("102400", refused)
        self.assertIn("--dataset-limit", refused)
        # The client refuses a long file by its size, without reading it.
        with open(folder / "long.csv", "wb") as long:
            long.truncate(9 << 30)
        refused = server.cli("datasets", "upload", "rows", folder / "long.csv", code=7)
        self.assertIn("limit of 102400 bytes", refused)
        self.assertIn("divide it into several datasets", refused)

    def test_a_wrong_file_ends_the_server_with_the_place_and_the_rule(self):
        self.refused("queues:\n  - name: a\n    rank: x\n", "gpupoold.yaml",
                     "rank=x at line 3, column 11", "from -1000 to 1000")
        self.refused("quues: a\n", '"quues" at line 1, column 1',
                     'did you mean "queues"?')
        self.refused("model-limit: 65TiB\n", "model-limit", "65TiB", "1 to 64TiB")

    def test_the_example_of_deploy_serves(self):
        server = self.start("--config", harness.ROOT / "deploy/gpupoold.yaml",
                            "--devices", "cpu:2")
        self.assertEqual(["urgent", "default", "night"],
                         [q["name"] for q in self.queues(server)])

    def test_output_that_cannot_be_written_is_a_failure(self):
        for flag in ("--help", "--version", "--list-settings"):
            with open("/dev/full", "w") as full:
                done = subprocess.run([harness.BIN / "gpupoold", flag], stdout=full,
                                      stderr=subprocess.PIPE, text=True)
            self.assertEqual(done.returncode, 1, flag)
            self.assertIn("the output cannot be written", done.stderr)

    def test_the_ports_of_deploy_are_the_defaults(self):
        listed = subprocess.run([harness.BIN / "gpupoold", "--list-settings"],
                                capture_output=True, text=True, check=True).stdout
        ports = dict(re.findall(r"`--(grpc|http|metrics)-port PORT` \| [^|]* \| `(\d+)`",
                                listed))
        self.assertEqual({"grpc", "http", "metrics"}, set(ports))
        for name in ("cpu", "cuda"):
            text = (harness.ROOT / f"docker/{name}.Dockerfile").read_text()
            exposed = re.search(r"^EXPOSE (.*)$", text, re.M).group(1).split()
            self.assertEqual(sorted(ports.values()), sorted(exposed))
        scrape = (harness.ROOT / "deploy/prometheus/prometheus.yml").read_text()
        self.assertIn(f'"gpupool:{ports["metrics"]}"', scrape)


if __name__ == "__main__":
    harness.main()
