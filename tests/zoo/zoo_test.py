#!/usr/bin/python3
"""A few small nets of the zoo: what docs/model_zoo.md says of them holds."""
import importlib.util
import math
import pathlib
import re
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]
import harness  # noqa: E402

MISSING = [name for name in ("numpy", "onnx", "torch", "torchvision")
           if importlib.util.find_spec(name) is None]
SMALL = ["gpt", "llama", "lstm", "unet", "conv1d", "wide_and_deep", "k_means", "qdq_mlp",
         "dynamic_mlp", "mlp_fp16"]


@unittest.skipIf(MISSING, f"not installed: {', '.join(MISSING)}; on Debian python3-torch, "
                          "python3-torchvision, python3-onnx, python3-numpy")
class Zoo(harness.TestCase):
    def test_small_nets_serve_export_and_train_like_pytorch(self):
        import measure
        import torch
        import zoo
        torch.set_num_threads(1)
        server = self.start("--devices", "cpu:1")
        pool = measure.Pool(server, server.state)
        nets = {net.name: net for net in zoo.all_nets()}
        for name in SMALL:
            with self.subTest(name):
                net = nets[name]
                row = measure.measure(net, pool, server.state)
                self.assertEqual([], zoo.faults(net, row))

    def test_every_step_must_have_a_finite_loss(self):
        import measure
        expected = [2.0 - 0.1 * step for step in range(measure.STEPS)]
        got = dict(enumerate(expected, 1))
        self.assertEqual(0, measure.apart(got, expected))
        self.assertAlmostEqual(0.25, measure.apart({**got, 7: got[7] + 0.5}, expected))
        without = {step: loss for step, loss in got.items() if step not in (3, 20)}
        for losses, text in ((without, "no loss of steps [3, 20]"),
                             ({}, "no loss of steps [1, 2,"),
                             ({**got, 21: 0.5}, "steps [21] beyond 20"),
                             ({**got, 5: math.nan}, "the job has losses that are not finite, "
                                                    "by step: {5: nan}"),
                             ({**got, 20: math.inf}, "{20: inf}")):
            with self.assertRaises(measure.Refused) as caught:
                measure.apart(losses, expected)
            self.assertIn(text, str(caught.exception))
        with self.assertRaises(measure.Refused) as caught:
            measure.apart(got, [*expected[:-1], math.nan])
        self.assertIn("PyTorch has losses that are not finite", str(caught.exception))

    def test_findings_are_a_failure(self):
        import zoo
        net = zoo.all_nets()[0]
        self.assertEqual(0, zoo.report(zoo.faults(net, {"served": 0.0})))
        self.assertEqual(1, zoo.report(zoo.faults(net, {"served": 1e9})))

    def test_the_page_has_each_measured_net_once(self):
        import zoo
        names = re.findall(r"^\| ([a-z0-9_]+) \| [\d,]+ \|", zoo.PAGE.read_text(), re.M)
        self.assertEqual(len(set(names)), len(names))
        self.assertLessEqual(set(names), {net.name for net in zoo.all_nets()})
        self.assertGreaterEqual(len(names), 50)


if __name__ == "__main__":
    if MISSING:
        print(f"skipped: not installed: {', '.join(MISSING)}")
        sys.exit(77)
    harness.main()
