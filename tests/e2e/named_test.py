#!/usr/bin/env python3
"""Models that go by a name: their list, PyTorch's weights in them, their training,
and their errors."""
import importlib.util
import json
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402

MISSING = [name for name in ("numpy", "torch", "torchvision")
           if importlib.util.find_spec(name) is None]
PARAMETERS = {"lenet5": 61706, "mlp": 235146, "resnet18": 11689512,
              "resnet34": 21797672, "resnet50": 25557032, "resnet20_cifar": 272474,
              "vit_tiny": 5717416, "gpt_tiny": 834304}


def write_safetensors(path, arrays):
    header, data = {}, b""
    for name, array in arrays.items():
        kind = {"float32": "F32", "int64": "I64"}[str(array.dtype)]
        header[name] = {"dtype": kind, "shape": list(array.shape),
                        "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


class Named(harness.TestCase):
    def test_the_list_has_every_model_with_its_parameters(self):
        server = self.start("--devices", "cpu:1")
        models = server.json("models", "named")["models"]
        self.assertEqual(PARAMETERS, {model["name"]: int(model["plan"]["parameters"])
                                      for model in models})

    def test_errors_name_the_model_or_the_layer(self):
        server = self.start("--devices", "cpu:1")
        path = server.state / "model.yaml"
        for text, error in (
                ("named: {resnet18: {width: 5000}}", "named resnet18: width is 5000"),
                ("named: {lenet5: {}}\ninput_shape: [784]", "write [channels, height, width]"),
                ("named: resnet18\nlayers: [relu]", "both named and layers"),
                ("named: {vit_tiny: {width: 100}}",
                 "named vit_tiny: heads 3 must divide the width 100"),
                ("named: {gpt_tiny: {context: 16}}\ninput_shape: [17]",
                 "input_shape has 17 tokens, but context is 16"),
                ("input_shape: [4]\nlayers: [{embedding: {entries: 9, width: 6}}, "
                 "{attention: {heads: 1, causal: true}}, {dense: {units: 2}, "
                 "initial_weight: normal, initial_deviation: -1}]",
                 "layer 'dense_2': initial_deviation -1"),
                ("input_shape: [4]\nlayers: [{relu: {}, input: ghost}]",
                 "layer 'relu_0': reads the output of 'ghost'")):
            path.write_text(text)
            self.assertIn(error, server.cli("models", "plan", path, code=2))

    @unittest.skipIf("numpy" in MISSING, "python3-numpy is not installed")
    def test_transformers_learn_are_served_and_exported(self):
        import numpy as np
        subprocess.run([sys.executable, "examples/gpt_tiny.py"], cwd=harness.ROOT,
                       check=True, capture_output=True)
        out = harness.ROOT / "examples/out"
        x = np.load(out / "bytes.npz")["x"]
        self.assertTrue(np.array_equal(x[0, 16:], x[1, :16]), "rows overlap")
        self.assertFalse(np.array_equal(x[-65, 16:], x[-64, :16]),
                         "a row of training shares bytes with one that is held out")
        server = self.start("--devices", "cpu:2")
        server.upload_digits()
        server.cli("datasets", "upload", "bytes", out / "bytes.npz")
        rows = {"vit_tiny": np.random.default_rng(1).uniform(0, 16, (3, 1, 8, 8)).astype(
                    np.float32),
                "gpt_tiny": np.load(out / "bytes.npz")["x"][:3].astype(np.int64)}
        # The commonest class of each alone gives 0.1 and 0.23.
        for name, wanted in (("vit_tiny", 0.8), ("gpt_tiny", 0.32)):
            job = server.wait_job(
                int(server.json("submit", f"examples/{name}.yaml")["id"]))
            self.assertEqual("SUCCEEDED", job["state"], job)
            self.assertEqual(job["memory"]["planned_peak_bytes"],
                             job["memory"]["measured_peak_bytes"])
            accuracy = job["evaluation"]["accuracy"]
            self.assertGreater(accuracy, wanted, name)
            print(f"{name}: held-out accuracy {accuracy:.3f}", file=sys.stderr)
            server.cli("models", "promote", job["spec"]["name"], "--model", name,
                       "--max-batch-size", "4", "--wait")
            exported = server.state / f"{name}.onnx"
            server.cli("models", "export", name, "-O", exported)
            server.cli("models", "upload", f"{name}-onnx", exported,
                       "--max-batch-size", "4")
            np.save(server.state / "rows.npy", rows[name])
            answers = []
            for model in (name, f"{name}-onnx"):
                plan = server.json("models", "get", model)["versions"][0]["plan"]
                self.assertFalse(plan.get("computes_alone"), plan)
                server.cli("models", "infer", model, "--input",
                           f"input={server.state}/rows.npy", "--save",
                           server.state / model)
                answers.append(np.load(server.state / model / "output.npy"))
            np.testing.assert_allclose(answers[0], answers[1], atol=1e-4)

    @unittest.skipIf("numpy" in MISSING, "python3-numpy is not installed")
    def test_a_transformer_learns_the_same_on_two_devices(self):
        subprocess.run([sys.executable, "examples/gpt_tiny.py"], cwd=harness.ROOT,
                       check=True, capture_output=True)
        server = self.start("--devices", "cpu:2")
        server.cli("datasets", "upload", "bytes", harness.ROOT / "examples/out/bytes.npz")
        text = (harness.ROOT / "examples/gpt_tiny.yaml").read_text()
        for old, new in ((" epochs: 30", " steps: 12"), (", warmup_steps: 20", ""),
                         ("evaluate_every_epochs: 10", "evaluate_every_steps: 12")):
            self.assertIn(old, text)
            text = text.replace(old, new)
        losses = []
        for devices in (1, 2):
            job = server.wait_job(server.submit(f"devices: {devices}\n{text}"))
            self.assertEqual("SUCCEEDED", job["state"], job)
            losses.append(job["evaluation"]["loss"])
        self.assertAlmostEqual(losses[0], losses[1], places=3)

    @unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}; on Debian "
                              "python3-torch, python3-torchvision, python3-numpy")
    def test_weights_of_torchvision_give_its_answers(self):
        import numpy as np
        import torch
        import torchvision
        server = self.start("--devices", "cpu:2")
        torch.manual_seed(3)
        for name in ("resnet18", "resnet50"):
            module = getattr(torchvision.models, name)(num_classes=7).eval()
            for norm in module.modules():
                if isinstance(norm, torch.nn.BatchNorm2d):
                    norm.running_mean.uniform_(-0.1, 0.1)
                    norm.running_var.uniform_(0.5, 1.5)
            weights = server.state / f"{name}.safetensors"
            write_safetensors(weights, {key: np.ascontiguousarray(value.numpy())
                                        for key, value in module.state_dict().items()})
            spec = server.state / f"{name}.yaml"
            spec.write_text(f"named: {{{name}: {{classes: 7}}}}\ninput_shape: [3, 64, 48]\n")
            server.cli("models", "upload", name, spec, "--weights", weights,
                       "--max-batch-size", "4")
            x = torch.randn(3, 3, 64, 48)
            np.save(server.state / "x.npy", x.numpy())
            server.cli("models", "infer", name, "--input", f"input={server.state}/x.npy",
                       "--save", server.state / name)
            answer = np.load(server.state / name / "output.npy")
            with torch.no_grad():
                expected = module(x).numpy()
            scale = np.abs(expected).max()
            np.testing.assert_allclose(answer / scale, expected / scale, atol=1e-4)


if __name__ == "__main__":
    harness.main()
