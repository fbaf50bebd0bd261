#!/usr/bin/env python3
"""Folders of recordings, through the real processes: training on tones, and refusals
that name the recording."""
import io
import math
import pathlib
import random
import struct
import sys
import wave

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402

TONES = """\
name: tones
model:
  input_shape: [1, 1, 512]
  layers:
    - conv2d: {filters: 16, kernel: [1, 17], stride: [1, 2]}
    - relu
    - conv2d: {filters: 16, kernel: [1, 9], stride: [1, 2]}
    - relu
    - global_avg_pool
    - dense: {units: 3}
data: {dataset: tones, held_out: {every: 5}}
training:
  cross_entropy: {}
  adam: {learning_rate: 0.01}
  batch_size: 20
  epochs: 40
  seed: 1
"""


def wav(samples, rate=8000):
    """Returns a WAV file with one channel of fractions."""
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(struct.pack(f"<{len(samples)}h",
                                     *(int(32767 * x) for x in samples)))
    return out.getvalue()


class Audio(harness.TestCase):
    def write(self, server, files, root="set"):
        for name, data in files.items():
            path = server.state / root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return server.state / root

    def test_tones_are_learned(self):
        server = self.start("--devices", "cpu:1")
        numbers = random.Random(1)
        files = {}
        for i in range(150):
            name, pitch = (("low", 300), ("middle", 700), ("high", 1500))[i % 3]
            pitch *= numbers.uniform(0.95, 1.05)
            phase, loud = numbers.uniform(0, 6), numbers.uniform(0.4, 0.9)
            files[f"{name}/{i}.wav"] = wav(
                [loud * math.sin(phase + 2 * math.pi * pitch * t / 8000)
                 for t in range(numbers.randint(400, 700))])
        folder = self.write(server, files, "tones")
        server.cli("datasets", "upload", "tones", folder, "--audio-samples", "512")
        dataset = server.json("datasets", "describe", "tones")
        self.assertEqual("150", dataset["rows"])
        self.assertEqual(["1", "512"], dataset["feature_shape"])
        self.assertEqual(8000, dataset["description"]["audio"]["rate"])
        labels = dataset["description"]["columns"][1]
        self.assertEqual(["high", "low", "middle"], labels["categories"])
        done = server.wait_job(server.submit(TONES))
        self.assertEqual("SUCCEEDED", done["state"], done)
        self.assertEqual(done["memory"]["planned_peak_bytes"],
                         done["memory"]["measured_peak_bytes"])
        self.assertGreaterEqual(done["evaluation"]["accuracy"], 0.9)

    def test_refusals_name_the_recording_and_the_remedy(self):
        server = self.start("--devices", "cpu:1")
        good = wav([0.0] * 8)

        def refusal(data):
            folder = self.write(server, {"a/1.wav": good, "b/2.wav": data})
            return server.cli("datasets", "upload", "broken", folder, code=2)
        lying = good[:40] + b"\xff\xff\xff\xff"
        self.assertIn("set.tar: b/2.wav claims 4294967295 bytes of samples, but has 0",
                      refusal(lying))
        text = refusal(wav([0.0] * 8, rate=44100))
        self.assertIn("b/2.wav has 44100 samples a second, but the first recording", text)
        self.assertIn("nothing is resampled", text)
        self.assertIn("--audio-samples 8", refusal(wav([0.0] * 9)))
        server.cli("datasets", "get", "broken", code=3)


if __name__ == "__main__":
    harness.main()
