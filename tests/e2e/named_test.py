#!/usr/bin/env python3
"""Models that go by a name: their list, PyTorch's weights in them, and their errors."""
import importlib.util
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402

MISSING = [name for name in ("numpy", "torch", "torchvision")
           if importlib.util.find_spec(name) is None]
PARAMETERS = {"lenet5": 61706, "mlp": 235146, "resnet18": 11689512,
              "resnet34": 21797672, "resnet50": 25557032, "resnet20_cifar": 272474}


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
                ("input_shape: [4]\nlayers: [{relu: {}, input: ghost}]",
                 "layer 'relu_0': reads the output of 'ghost'")):
            path.write_text(text)
            self.assertIn(error, server.cli("models", "plan", path, code=2))

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
