#!/usr/bin/env python3
"""Two tenants with tokens: models and data sets of one are none of the other's."""
import json
import pathlib
import sys
import urllib.error
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402

NOT_FOUND, DENIED, EXISTS, EXHAUSTED = 3, 4, 6, 7
# Calls over HTTP that name a model: path and message; None: a GET.
MODEL_CALLS = {
    "GetModel": ("/api/gpupool.v1.ModelService/GetModel", {"name": "NAME"}),
    "ShareModel": ("/api/gpupool.v1.ModelService/ShareModel", {"name": "NAME"}),
    "LoadVersion": ("/api/gpupool.v1.ModelService/LoadVersion", {"model": "NAME"}),
    "UnloadVersion": ("/api/gpupool.v1.ModelService/UnloadVersion", {"model": "NAME"}),
    "DeleteVersion": ("/api/gpupool.v1.ModelService/DeleteVersion",
                      {"model": "NAME", "version": 1}),
    "metadata": ("/v2/models/NAME", None),
    "config": ("/v2/models/NAME/config", None),
    "statistics": ("/v2/models/NAME/stats", None),
    "infer": ("/v2/models/NAME/infer", {"inputs": [
        {"name": "none", "shape": [1, 1], "datatype": "FP32", "data": [1.0]}]}),
    "load": ("/v2/repository/models/NAME/load", {}),
    "unload": ("/v2/repository/models/NAME/unload", {}),
}
# Those that the tenant of a shared model alone may call.
CHANGES = ("ShareModel", "LoadVersion", "UnloadVersion", "DeleteVersion", "load", "unload")
DATASET_CALLS = {
    "GetDataset": ("/api/gpupool.v1.DatasetService/GetDataset", {"name": "NAME"}),
    "DeleteDataset": ("/api/gpupool.v1.DatasetService/DeleteDataset", {"name": "NAME"}),
}


class Tenants(harness.TestCase):
    def setUp(self):
        # Room for one data set and the small model of a job.
        self.bytes = harness.DIGITS.stat().st_size
        self.limit = self.bytes * 2 - 1
        self.server = self.start(
            "--devices", "cpu:1", "--auth", "tokens",
            "--tenants", f"b:jobs=1,models=1,stored-bytes={self.limit};c:models=0")
        self.admin = self.server.state / "admin-token"
        self.mia, self.other = self.create("a"), self.create("b")

    def create(self, tenant, role="user"):
        """Makes a token and returns the file that has it."""
        file = self.server.state / f"token-{tenant}-{role}"
        file.write_text(self.server.cli(
            "--token-file", self.admin, "tokens", "create", "--role", role,
            "--tenant", tenant))
        return file

    def cli(self, file, *arguments, **options):
        return self.server.cli("--token-file", file, *arguments, **options)

    def http(self, file, path, message=None):
        """Returns the status and the body of a call."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.server.ports['http_port']}{path}",
            headers={"Content-Type": "application/json",
                     "Authorization": f"Bearer {file.read_text().strip()}"},
            data=None if message is None else json.dumps(message).encode())
        try:
            with urllib.request.urlopen(request, timeout=harness.PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def call(self, file, call, name):
        path, message = call
        if message is not None:
            message = {key: name if value == "NAME" else value
                       for key, value in message.items()}
        return self.http(file, path.replace("NAME", name), message)

    def assert_hidden(self, calls, name):
        for method, call in calls.items():
            with self.subTest(method=method):
                code, body = self.call(self.other, call, name)
                none = self.call(self.other, call, "void")
                self.assertEqual(none, (code, body.replace(name, "void")))
                self.assertIn(code, (400, 404) if method == "statistics" else (404,))

    def train(self, name):
        """Trains a model of this name on `minedata` as mia. Returns the job file."""
        self.cli(self.mia, "datasets", "upload", "minedata", harness.DIGITS)
        path = self.server.state / "job.yaml"
        path.write_text(harness.digits_job(
            name=name, steps=10, dataset="minedata", publish="true"))
        job = json.loads(self.cli(self.mia, "submit", path, "-o", "json"))["id"]
        self.cli(self.mia, "wait", job)
        harness.wait_until(
            lambda: json.loads(self.cli(self.mia, "models", "get", name, "-o", "json"))
            ["versions"][0]["state"] == "READY", what="the version to be served")
        return path

    def test_a_tenant_has_its_own_models_and_data_sets(self):
        path = self.train("secretnet")
        model = json.loads(self.cli(self.mia, "models", "get", "secretnet", "-o", "json"))
        self.assertEqual("a", model["tenant"])
        self.assert_hidden(MODEL_CALLS, "secretnet")
        self.assert_hidden(DATASET_CALLS, "minedata")
        for verb in (("models", "list"), ("datasets", "list"), ("devices",)):
            listed = self.cli(self.other, *verb, "-o", "json")
            self.assertNotIn("secretnet", listed)
            self.assertNotIn("minedata", listed)
        index = self.http(self.other, "/v2/repository/index", {})
        self.assertEqual((200, []), (index[0], json.loads(index[1])))
        self.assertNotIn("secretnet", self.http(self.other, "/v2/models/stats")[1])
        self.cli(self.other, "submit", path, code=NOT_FOUND)
        said = self.cli(self.other, "datasets", "upload", "minedata", harness.DIGITS,
                        code=EXISTS)
        self.assertIn("is taken", said)

        self.cli(self.mia, "models", "share", "secretnet")
        for method, call in MODEL_CALLS.items():
            with self.subTest(shared=method):
                code, body = self.call(self.other, call, "secretnet")
                self.assertEqual(403 if method in CHANGES else
                                 400 if method == "infer" else 200, code, body)
        rows = self.cli(self.other, "models", "infer", "secretnet", "--data", harness.DIGITS,
                        "--rows", "last:10", "-o", "json")
        self.assertTrue(json.loads(rows))
        # Sharing and tenants are on disk.
        self.server.kill()
        self.server.start()
        self.cli(self.other, "models", "get", "secretnet")
        self.cli(self.mia, "models", "share", "secretnet", "--off")
        self.assert_hidden(MODEL_CALLS, "secretnet")
        self.assert_hidden(DATASET_CALLS, "minedata")

    def test_a_tenant_has_at_most_its_limit_of_jobs(self):
        path = self.server.state / "job.yaml"
        self.cli(self.other, "datasets", "upload", "digits", harness.DIGITS)
        path.write_text(harness.digits_job(steps=1_000_000))
        job = json.loads(self.cli(self.other, "submit", path, "-o", "json"))["id"]
        said = self.cli(self.other, "submit", path, code=EXHAUSTED)
        self.assertIn('tenant "b" has 1 jobs that have not ended, may have 1', said)
        self.cli(self.mia, "submit", path, code=NOT_FOUND)
        self.cli(self.other, "cancel", job)
        harness.wait_until(lambda: json.loads(self.cli(
            self.other, "get", job, "-o", "json"))["state"] == "CANCELLED",
            what="the job to end")
        job = json.loads(self.cli(self.other, "submit", path, "-o", "json"))["id"]
        self.cli(self.other, "cancel", job)

    def quota(self, file, *arguments):
        """Returns the rows of `gpupool quota` by tenant."""
        rows = json.loads(self.cli(file, "quota", *arguments, "-o", "json"))["tenants"]
        return {row["tenant"]: row for row in rows}

    def test_a_tenant_stores_at_most_its_bytes(self):
        self.cli(self.other, "datasets", "upload", "one", harness.DIGITS)
        said = self.cli(self.other, "datasets", "upload", "two", harness.DIGITS,
                        code=EXHAUSTED)
        self.assertIn(f'tenant "b" stores {self.bytes} bytes of data sets, models and '
                      f"uploads, may store {self.limit}, and asks for {self.bytes} more",
                      said)
        part = self.create("b.x")
        self.cli(part, "datasets", "upload", "two", harness.DIGITS, code=EXHAUSTED)
        self.cli(self.mia, "datasets", "upload", "mine", harness.DIGITS)
        # What is there needs no room.
        self.cli(self.other, "datasets", "upload", "one", harness.DIGITS)
        stored = self.quota(self.other)["b"]["stored_bytes"]
        self.assertEqual((self.bytes, self.limit), (int(stored["used"]), int(stored["limit"])))
        self.server.kill()
        self.server.start()
        self.cli(self.other, "datasets", "upload", "two", harness.DIGITS, code=EXHAUSTED)
        self.cli(self.other, "datasets", "delete", "one")
        self.cli(self.other, "datasets", "upload", "two", harness.DIGITS)

    def test_a_tenant_serves_at_most_its_number_of_models(self):
        user = self.create("c")
        self.cli(user, "datasets", "upload", "rows", harness.DIGITS)
        path = self.server.state / "job.yaml"
        path.write_text(harness.digits_job(
            name="net", steps=10, dataset="rows", publish="true"))
        job = json.loads(self.cli(user, "submit", path, "-o", "json"))["id"]
        self.cli(user, "wait", job)
        model = json.loads(self.cli(user, "models", "get", "net", "-o", "json"))
        self.assertEqual("UNLOADED", model["versions"][0]["state"])
        self.assertGreater(int(model["versions"][0]["stored_bytes"]), 0)
        said = self.cli(user, "models", "load", "net", code=EXHAUSTED)
        self.assertIn('tenant "c" has 0 versions of models loaded, may have 0', said)

    def test_a_tenant_sees_its_own_quota_and_an_operator_all(self):
        self.assertEqual(["a"], list(self.quota(self.mia)))
        self.cli(self.mia, "quota", "b", code=DENIED)
        rows = self.quota(self.admin)
        self.assertEqual(["b", "c"], sorted(rows))
        self.assertEqual(1, int(rows["b"]["models"]["limit"]))
        self.assertEqual(["b"], list(self.quota(self.admin, "b")))
        self.assertIn("0 of 1", self.cli(self.admin, "quota", "b"))

    def test_what_has_no_tenant_is_everybodys(self):
        self.cli(self.admin, "datasets", "upload", "rows", harness.DIGITS)
        self.cli(self.other, "datasets", "describe", "rows")
        self.cli(self.mia, "datasets", "delete", "rows")


if __name__ == "__main__":
    harness.main()
