#!/usr/bin/python3
"""Holds a live server against the REST form of the open inference protocol, as a
client sees it that has nothing but HTTP.

    rest_conformance_test.py --address HOST:PORT --model NAME

The model needs one FP32 input with a batch dimension and must be served.
"""
import argparse
import http.client
import json
import sys
import unittest

import numpy as np

LENGTH = "Inference-Header-Content-Length"
PATIENCE = 60  # seconds
address = None
model = None


def ask(method, path, body=None, headers=None):
    """Returns status, headers and body of an answer."""
    connection = http.client.HTTPConnection(address, timeout=PATIENCE)
    try:
        connection.request(method, path, body, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        status, _, body = ask("GET", f"/v2/models/{model}")
        assert status == 200, body
        cls.metadata = json.loads(body)
        cls.input = cls.metadata["inputs"][0]
        cls.row_shape = cls.input["shape"][1:]

    def get(self, path):
        status, headers, body = ask("GET", path)
        self.assertEqual(200, status, body)
        self.assertEqual("application/json", headers["Content-Type"])
        return json.loads(body)

    def post(self, path, message):
        status, _, body = ask("POST", path, json.dumps(message))
        self.assertEqual(200, status, body)
        return json.loads(body)

    def refused(self, status, text, message, blobs=b"", headers=None):
        """Expects an error of an inference, with this text."""
        got, _, body = ask("POST", self.path(), json.dumps(message).encode() + blobs,
                           headers)
        self.assertEqual(status, got, body)
        self.assertIn(text, json.loads(body)["error"])

    def path(self, name=None, version=""):
        return f"/v2/models/{name or model}{version}/infer"

    def rows(self, count, seed=1):
        random = np.random.default_rng(seed)
        return random.standard_normal([count, *self.row_shape]).astype(np.float32)

    def tensor(self, values, **fields):
        return {"name": self.input["name"], "datatype": "FP32",
                "shape": list(values.shape), **fields}

    def request(self, values):
        return {"inputs": [self.tensor(values, data=values.tolist())]}

    def binary_request(self, values, **fields):
        """Returns the body and the headers of a request with binary data."""
        blob = values.astype("<f4").tobytes()
        head = json.dumps({"inputs": [self.tensor(
            values, parameters={"binary_data_size": len(blob)})], **fields}).encode()
        return head + blob, {LENGTH: str(len(head))}

    def result(self, answer):
        output = answer["outputs"][0]
        return np.array(output["data"], np.float32).reshape(output["shape"])

    def binary_result(self, headers, body):
        length = int(headers[LENGTH])
        answer = json.loads(body[:length])
        blobs = body[length:]
        output = answer["outputs"][0]
        self.assertEqual(len(blobs), output["parameters"]["binary_data_size"])
        self.assertNotIn("data", output)
        return np.frombuffer(blobs, "<f4").reshape(output["shape"])


class Server(Case):
    def test_it_is_live_and_ready(self):
        self.assertEqual({"live": True}, self.get("/v2/health/live"))
        self.assertEqual({"ready": True}, self.get("/v2/health/ready"))

    def test_it_claims_what_it_serves(self):
        server = self.get("/v2")
        self.assertEqual({"name", "version", "extensions"}, set(server))
        self.assertIn("binary_tensor_data", server["extensions"])
        self.assertIn("logging", server["extensions"])
        self.assertEqual({"log_file", "log_info", "log_warning", "log_error",
                          "log_verbose_level", "log_format"},
                         set(self.get("/v2/logging")))
        self.assertNotIn("system_shared_memory", server["extensions"])


class Model(Case):
    def test_metadata_has_a_batch_dimension(self):
        self.assertEqual(model, self.metadata["name"])
        self.assertEqual(-1, self.input["shape"][0])

    def test_the_configuration_leaves_the_batch_dimension_out(self):
        config = self.get(f"/v2/models/{model}/config")
        self.assertEqual(model, config["name"])
        self.assertEqual(self.row_shape, config["input"][0]["dims"])
        self.assertEqual("TYPE_FP32", config["input"][0]["data_type"])
        self.assertGreater(config["max_batch_size"], 0)

    def test_ready_is_false_for_what_is_not_served(self):
        version = self.metadata["versions"][0]
        for path in (model, f"{model}/versions/{version}"):
            self.assertTrue(self.get(f"/v2/models/{path}/ready")["ready"])
        for path in ("no-such-model", f"{model}/versions/999"):
            self.assertEqual(400, ask("GET", f"/v2/models/{path}/ready")[0])

    def test_statistics_count_rows(self):
        def count():
            found = self.get(f"/v2/models/{model}/stats")["model_stats"]
            self.assertEqual(1, len(found))
            return found[0]["inference_count"]
        before = count()
        self.post(self.path(), self.request(self.rows(2)))
        self.assertEqual(before + 2, count())
        self.assertIn(model, [one["name"] for one in
                              self.get("/v2/models/stats")["model_stats"]])

    def test_the_index_lists_the_model(self):
        for message in ({}, {"ready": True}):
            index = self.post("/v2/repository/index", message)
            found = [one for one in index if one["name"] == model]
            self.assertEqual("READY", found[0]["state"])
        status, _, body = ask("POST", "/v2/repository/other/index", "{}")
        self.assertEqual(501, status, body)


class Infer(Case):
    def test_version_is_filled_in_and_id_echoed(self):
        answer = self.post(self.path(), {"id": "a b", **self.request(self.rows(1))})
        self.assertEqual("a b", answer["id"])
        self.assertEqual(model, answer["model_name"])
        self.assertIn(answer["model_version"], self.metadata["versions"])
        version = f"/versions/{answer['model_version']}"
        self.post(self.path(version=version), self.request(self.rows(1)))

    def test_nested_flat_and_binary_data_are_the_same(self):
        values = self.rows(2)
        nested = self.result(self.post(self.path(), self.request(values)))
        flat = self.result(self.post(self.path(), {"inputs": [
            self.tensor(values, data=values.ravel().tolist())]}))
        np.testing.assert_array_equal(nested, flat)
        body, headers = self.binary_request(values)
        status, got, answer = ask("POST", self.path(), body, headers)
        self.assertEqual(200, status, answer)
        self.assertIsNone(got[LENGTH])
        np.testing.assert_array_equal(nested, self.result(json.loads(answer)))

    def test_outputs_are_binary_by_request_or_by_name(self):
        values = self.rows(2)
        expected = self.result(self.post(self.path(), self.request(values)))
        name = self.metadata["outputs"][0]["name"]
        for fields in ({"parameters": {"binary_data_output": True}},
                       {"outputs": [{"name": name,
                                     "parameters": {"binary_data": True}}]}):
            body, headers = self.binary_request(values, **fields)
            status, got, answer = ask("POST", self.path(), body, headers)
            self.assertEqual(200, status, answer)
            np.testing.assert_array_equal(expected, self.binary_result(got, answer))

    def test_the_body_may_be_the_only_input(self):
        values = self.rows(2)
        expected = self.result(self.post(self.path(), self.request(values)))
        status, got, answer = ask("POST", self.path(), values.tobytes(), {LENGTH: "0"})
        self.assertEqual(200, status, answer)
        np.testing.assert_array_equal(expected, self.binary_result(got, answer))

    def test_unknown_models_and_versions(self):
        body = json.dumps(self.request(self.rows(1)))
        for path in (self.path("no-such-model"), self.path(version="/versions/999")):
            status, _, answer = ask("POST", path, body)
            self.assertEqual(404, status, answer)
            self.assertIn("is not found", json.loads(answer)["error"])

    def test_wrong_tensors_are_refused_by_name(self):
        values = self.rows(1)
        name = self.input["name"]
        request = self.request(values)
        request["inputs"][0]["name"] = "pixels"
        self.refused(400, "unexpected inference input 'pixels'", request)
        request = self.request(values)
        request["inputs"][0]["datatype"] = "BYTES"
        self.refused(400, f"input '{name}'", request)
        request["inputs"][0]["data"] = ["x"] * values.size
        self.refused(400, f"'{name}'", request)
        request = self.request(values)
        request["inputs"][0]["data"] = [1e39] + values.ravel().tolist()[1:]
        self.refused(400, f"input '{name}': element 0 is 1e+39; FP32 takes", request)
        request["inputs"][0]["data"] = [1.0]
        self.refused(400, f"input '{name}': 'data' has 1 elements", request)

    def test_an_infinite_element_may_be_a_text(self):
        values = self.rows(1)
        request = self.request(values)
        request["inputs"][0]["data"] = ["Infinity"] + values.ravel().tolist()[1:]
        answer = self.post(self.path(), request)
        self.assertEqual(1, answer["outputs"][0]["shape"][0])

    def test_sizes_that_do_not_add_up_are_refused(self):
        values = self.rows(1)
        size = values.nbytes
        head = {"inputs": [self.tensor(values, parameters={"binary_data_size": size})]}
        length = len(json.dumps(head))
        blob = values.tobytes()
        self.refused(400, f"binary_data_size of {size}", head, blob[:-1],
                     {LENGTH: str(length)})
        self.refused(400, "1 bytes of binary data more", head, blob + b"x",
                     {LENGTH: str(length)})
        self.refused(400, "but the body has", head, blob, {LENGTH: str(1 << 40)})
        self.refused(400, LENGTH, head, blob, {LENGTH: "-1"})
        head["inputs"][0]["parameters"]["binary_data_size"] = size - 4
        length = len(json.dumps(head))
        self.refused(400, f"'{self.input['name']}'", head, blob[:-4],
                     {LENGTH: str(length)})

    def test_shared_memory_is_refused(self):
        request = {"inputs": [self.tensor(self.rows(1), parameters={
            "shared_memory_region": "r", "shared_memory_byte_size": 4})]}
        self.refused(501, "shared memory is disabled", request)

    def test_the_server_serves_on_after_errors(self):
        self.refused(400, "no JSON", {}, b"}")
        self.post(self.path(), self.request(self.rows(1)))


def main():
    global address, model
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--address", required=True)
    parser.add_argument("--model", required=True)
    options, rest = parser.parse_known_args()
    address, model = options.address, options.model
    unittest.main(argv=sys.argv[:1] + rest)


if __name__ == "__main__":
    main()
