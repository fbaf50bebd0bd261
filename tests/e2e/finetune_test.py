#!/usr/bin/env python3
"""The commands of docs/models.md that train the end of a ResNet-18."""
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402

MISSING = [name for name in ("numpy", "onnx", "torch", "torchvision")
           if importlib.util.find_spec(name) is None]
OUT = harness.ROOT / "examples/out"


def weights(path):
    import onnx
    from onnx import numpy_helper
    return {tensor.name: numpy_helper.to_array(tensor)
            for tensor in onnx.load(path).graph.initializer}


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}; on Debian python3-torch, "
                          "python3-torchvision, python3-onnx, python3-numpy")
class Finetune(harness.TestCase):
    def run_documented_commands(self, server):
        text = (harness.ROOT / "docs/models.md").read_text()
        blocks = [block for block in re.findall(r"^```bash\n(.*?)^```$", text, re.M | re.S)
                  if "finetune_resnet18.yaml" in block]
        self.assertEqual(1, len(blocks))
        env = dict(os.environ, GPUPOOL_ADDRESS=server.address,
                   PATH=f"{harness.BIN}:{os.environ['PATH']}")
        done = subprocess.run(["bash", "-c", "set -euo pipefail\n" + blocks[0]],
                              cwd=harness.ROOT, env=env, capture_output=True, text=True,
                              timeout=900)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def test_the_end_of_a_network_learns_and_the_rest_keeps_its_bits(self):
        import numpy as np
        server = self.start("--devices", "cpu:2")
        self.run_documented_commands(server)
        job = server.json("get", "finetune-resnet18")
        self.assertEqual("SUCCEEDED", job["state"])
        accuracy = job["evaluation"]["accuracy"]
        self.assertGreater(accuracy, 0.5, "of six classes")

        before, after = weights(OUT / "resnet18.onnx"), weights(OUT / "finetuned.onnx")
        frozen = [name for name in before
                  if not name.startswith(("layer4.", "fc.")) and ".running_" not in name]
        self.assertEqual(45, len(frozen))
        for name in frozen:
            np.testing.assert_array_equal(before[name], after[name], name)
        for name in set(before) - set(frozen):
            self.assertFalse(np.array_equal(before[name], after[name]), name)

        scores = np.load(OUT / "scores.npy")
        self.assertEqual((6, 6), scores.shape)
        print(f"held-out accuracy {accuracy:.3f}; of one image of each shape "
              f"{(scores.argmax(1) == np.arange(6)).sum()} are told right", file=sys.stderr)


if __name__ == "__main__":
    harness.main()
