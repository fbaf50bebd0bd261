#!/usr/bin/env python3
"""A decoder with its cache as inputs and outputs through the real processes: empty
caches, sizes that follow from others, one program for each length or for few."""
import importlib.util
import pathlib
import re
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402
import models_test  # noqa: E402

if models_test.onnx is not None:
    import numpy as np
    from models_test import TensorProto, helper, make_model
    spec = importlib.util.spec_from_file_location(
        "make_decoder", harness.ROOT / "examples/make_decoder.py")
    make_decoder = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_decoder)

TEXT = (3, 1, 4, 1, 5)


def reference(decoder, tokens):
    """Returns the scores of the whole text, computed at once without a cache."""
    w = {name: array.astype(np.float64) for name, array in decoder.weights.items()}

    def norm(x, name):
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x * w[f"{name}.scale"] + w[f"{name}.bias"]
    count = len(tokens)
    x = w["tokens"][list(tokens)] + w["positions"][:count]
    for i in range(decoder.layers):
        parts = norm(x, f"{i}.norm1") @ w[f"{i}.qkv"] + w[f"{i}.qkv.bias"]
        q, k, v = (part.reshape(count, decoder.heads, decoder.head).transpose(1, 0, 2)
                   for part in np.split(parts, 3, -1))
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(decoder.head)
        scores[:, np.triu(np.ones((count, count), bool), 1)] = -np.inf
        p = np.exp(scores - scores.max(-1, keepdims=True))
        rows = (p / p.sum(-1, keepdims=True)) @ v
        x = x + rows.transpose(1, 0, 2).reshape(count, -1) @ w[f"{i}.out"] \
            + w[f"{i}.out.bias"]
        up = norm(x, f"{i}.norm2") @ w[f"{i}.up"] + w[f"{i}.up.bias"]
        x = x + (up / (1 + np.exp(-1.702 * up))) @ w[f"{i}.down"] + w[f"{i}.down.bias"]
    return norm(x, "norm") @ w["scores"]


@unittest.skipIf(models_test.onnx is None,
                 "python3-onnx and python3-numpy are not installed")
class DecoderTest(harness.TestCase):
    save = models_test.Models.save
    infer = models_test.Models.infer

    def setUp(self):
        super().setUp()
        self.decoder = make_decoder.Decoder()

    def cache(self, length, rows=1):
        shape = (rows, self.decoder.heads, length, self.decoder.head)
        return {f"past_key_values.{i}.{kind}": np.zeros(shape, np.float32)
                for i in range(self.decoder.layers) for kind in ("key", "value")}

    def step(self, server, new, cache, filled=0):
        """Returns the scores of the new tokens, and the cache after them. `filled`
        places at the front of the cache are hidden."""
        past = next(iter(cache.values())).shape[2]
        mask = np.ones((1, past + len(new)), np.int64)
        mask[:, :filled] = 0
        outputs = self.infer(server, "decoder", {
            "input_ids": np.array([new], np.int64), "attention_mask": mask, **cache})
        cache = {name.replace("present", "past_key_values"): array
                 for name, array in outputs.items() if name != "logits"}
        for array in cache.values():
            self.assertEqual((1, self.decoder.heads, past + len(new), self.decoder.head),
                             array.shape)
        self.assertEqual((1, len(new), self.decoder.vocabulary), outputs["logits"].shape)
        return outputs["logits"][0], cache

    def refused(self, server, new, mask, past):
        import grpc
        with self.assertRaises(grpc.RpcError) as caught:
            self.infer(server, "decoder", {
                "input_ids": np.zeros((1, new), np.int64),
                "attention_mask": np.ones((1, mask), np.int64), **self.cache(past)})
        self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT, caught.exception.code())
        return caught.exception.details()

    def programs(self, server, word):
        found = re.search(rf"gpupool_inference_programs_{word}_total"
                          r'\{model="decoder",version="1"\} (\d+)', server.metrics())
        return int(found.group(1)) if found else 0

    def check(self, scores, tokens, start=0):
        wanted = reference(self.decoder, tokens)[start:]
        np.testing.assert_allclose(scores, wanted, rtol=2e-3, atol=2e-4)

    def test_tokens_are_generated_one_at_a_time_from_an_empty_cache(self):
        server = self.start("--devices", "cpu:1")
        path = self.save(server, self.decoder.model(), "decoder.onnx")
        sizes = ("--dimension", "past=0:40", "--dimension", "sequence=1:40",
                 "--max-batch-size", "2")
        plan = server.json("models", "plan", path, *sizes)["plan"]
        mask = next(i for i in plan["inputs"] if i["name"] == "attention_mask")
        self.assertEqual("past + sequence", mask["variable"][0]["size"])
        self.assertEqual(80, int(mask["variable"][0]["maximum"]))
        present = next(o for o in plan["outputs"] if o["name"] == "present.0.key")
        self.assertEqual("past + sequence", present["variable"][0]["size"])
        version = server.json("models", "upload", "decoder", path, *sizes)
        self.assertEqual("READY", version["state"], version)
        self.assertEqual(plan["inference"]["peak"], version["plan"]["inference"]["peak"])

        # One token at a time, the text included.
        tokens, cache = list(TEXT), self.cache(0)
        rows = []
        for at in range(len(TEXT) + 20):
            scores, cache = self.step(server, tokens[at:at + 1], cache)
            rows.append(scores[0])
            if at + 1 == len(tokens):
                tokens.append(int(scores[0].argmax()))
        tokens.pop()
        self.assertEqual(len(TEXT) + 20, len(tokens))
        self.check(np.array(rows), tokens)
        # The whole sequence at once, with an empty cache.
        scores, whole = self.step(server, tokens, self.cache(0))
        self.check(scores, tokens)
        for name, array in whole.items():
            np.testing.assert_allclose(array, cache[name], rtol=2e-3, atol=2e-4)
        # The text first, then the rest after it.
        _, cache = self.step(server, tokens[:7], self.cache(0))
        scores, _ = self.step(server, tokens[7:], cache)
        self.check(scores, tokens, start=7)

        error = self.refused(server, 1, 5, 3)
        for word in ("'attention_mask'", "has 5 for dimension 1", "past + sequence: 4",
                     "past=3, sequence=1"):
            self.assertIn(word, error)
        self.assertIn("0 to 40", self.refused(server, 1, 42, 41))

    def test_windows_of_few_lengths_need_few_programs(self):
        server = self.start("--devices", "cpu:1")
        path = self.save(server, self.decoder.model(), "decoder.onnx")
        server.cli("models", "upload", "decoder", path, "--dimension", "past=16,64,128",
                   "--dimension", "sequence=1", "--max-batch-size", "1")
        tokens, cache, rows = list(TEXT), self.cache(0), []
        for at in range(100):
            past = next(iter(cache.values())).shape[2]
            filled = next(size for size in (16, 64, 128) if size >= past) - past
            window = {name: np.pad(part, ((0, 0), (0, 0), (filled, 0), (0, 0)))
                      for name, part in cache.items()}
            scores, cache = self.step(server, tokens[at:at + 1], window, filled)
            cache = {name: part[:, :, filled:] for name, part in cache.items()}
            rows.append(scores[0])
            if at + 1 == len(tokens):
                tokens.append(int(scores[0].argmax()))
        self.check(np.array(rows), tokens[:100])
        # The listed sizes were made when the version was loaded.
        self.assertEqual(0, self.programs(server, "compiled"))
        self.assertIn("16, 64, 128", self.refused(server, 1, 18, 17))

    def test_texts_are_padded_at_the_end_and_caches_are_not(self):
        server = self.start("--devices", "cpu:1")
        path = self.save(server, self.decoder.model("total"), "decoder.onnx")
        pads = ("--pad", "input_ids=0", "--pad", "attention_mask=0")
        error = server.cli("models", "upload", "decoder", path, "--dimension", "past=0:32",
                           "--dimension", "sequence=1,8", *pads, code=2)
        self.assertIn("'total'", error)
        error = server.cli("models", "upload", "decoder", path, "--dimension", "past=0,32",
                           "--dimension", "sequence=1,8", "--dimension",
                           "total=past+sequence", *pads,
                           *(word for name in self.cache(0) for word in ("--pad", f"{name}=0")),
                           code=2)
        self.assertIn("last term of a sum", error)
        server.cli("models", "upload", "decoder", path, "--dimension", "past=0:32",
                   "--dimension", "sequence=1,8", "--dimension", "total=past+sequence",
                   "--max-batch-size", "1", *pads)
        tokens = [7, 3, 9, 2, 8, 1, 1, 30, 4, 12]
        scores, cache = self.step(server, tokens[:5], self.cache(0))
        self.check(scores, tokens[:5])
        more, _ = self.step(server, tokens[5:], cache)
        self.check(more, tokens, start=5)

    def test_a_wrong_expression_is_refused_in_words(self):
        server = self.start("--devices", "cpu:1")
        path = self.save(server, self.decoder.model("total"), "decoder.onnx")
        for text, words in (("past+", "character 6"), ("past+steps", "'steps' has no size"),
                            ("past-sequence-99", "negative"), ("past//0", "divides by 0")):
            error = server.cli("models", "upload", "decoder", path, "--dimension",
                               "past=0:32", "--dimension", "sequence=1", "--dimension",
                               f"total={text}", code=2)
            self.assertIn("'total'", error)
            self.assertIn(words, error)

    def test_outputs_may_be_empty_and_bound_inputs_large(self):
        server = self.start("--devices", "cpu:1")
        model = make_model([helper.make_node("Compress", ["x", "keep"], ["y"], name="c", axis=0)],
                           [("x", TensorProto.FLOAT, [6000]),
                            ("keep", TensorProto.BOOL, [6000])],
                           [("y", TensorProto.FLOAT, ["kept"])], {})
        path = self.save(server, model, "keep.onnx")
        keep = np.ones(6000, bool)
        np.save(server.state / "keep.npy", keep)
        server.cli("models", "upload", "keep", path, "--bound",
                   f"keep={server.state / 'keep.npy'}")
        x = np.arange(6000, dtype=np.float32)
        for kept in (6000, 2, 0):
            keep[:] = False
            keep[:kept] = True
            y = self.infer(server, "keep", {"x": x, "keep": keep})["y"]
            np.testing.assert_array_equal(x[:kept], y)


if __name__ == "__main__":
    harness.main()
