#!/usr/bin/python3
"""The inference protocol as the whole daemon speaks it: trains a small model
through the real processes, serves it, and runs conformance_test.py and
rest_conformance_test.py on it.

    served_model_test.py --bin BUILD/bin
"""
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "e2e"))
import harness  # noqa: E402


class ServedModel(harness.TestCase):
    def test_a_trained_model_speaks_the_protocol(self):
        server = self.start("--devices", "cpu:1")
        server.upload_digits()
        job = server.wait_job(server.submit(
            harness.digits_job("digits", steps=50, publish="true")))
        self.assertEqual("SUCCEEDED", job["state"], job)
        server.cli("models", "load", "digits", "--wait")
        http = f"127.0.0.1:{server.ports['http_port']}"
        for script, address in (("conformance_test.py", server.address),
                                ("rest_conformance_test.py", http)):
            with self.subTest(script=script):
                done = subprocess.run(
                    ["/usr/bin/python3", HERE / script, "--address", address,
                     "--model", "digits"], capture_output=True, text=True,
                    timeout=100, check=False)
                self.assertEqual(0, done.returncode, done.stderr)


if __name__ == "__main__":
    harness.main()
