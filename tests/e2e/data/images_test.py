#!/usr/bin/env python3
"""Folders and archives of images, through the real processes: classes, training, and
refusals that name the image."""
import gzip
import importlib.util
import io
import pathlib
import random
import struct
import sys
import tarfile
import unittest
import zlib

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402

NO_PILLOW = importlib.util.find_spec("PIL") is None
SHAPES = """\
name: shapes
model:
  input_shape: [3, 16, 16]
  layers:
    - conv2d: {filters: 8, kernel: 3, padding: 1}
    - relu
    - max_pool: {kernel: 2}
    - flatten
    - dense: {units: 2}
data: {dataset: shapes, held_out: {every: 5}, scaling: {multiply: 0.0039}}
training:
  cross_entropy: {}
  adam: {learning_rate: 0.003}
  batch_size: 16
  epochs: 30
  seed: 3
"""


def png(width, height, pixel=b"\1\2\3", claimed=None):
    """Returns a PNG file whose header claims another size if told so."""
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
    size = claimed or (width, height)
    return (b"\x89PNG\r\n\x1a\n"
            + chunk(b"IHDR", struct.pack(">IIBBBBB", *size, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress((b"\0" + pixel * width) * height))
            + chunk(b"IEND", b""))


def tar(files):
    """Returns an archive of bytes by name."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return out.getvalue()


class Images(harness.TestCase):
    def write(self, server, files, root="set"):
        for name, data in files.items():
            path = server.state / root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return server.state / root

    def refusal(self, server, *arguments):
        return server.cli("datasets", "upload", "broken", *arguments, code=2)

    @unittest.skipIf(NO_PILLOW, "not installed: PIL; on Debian python3-pil")
    def test_a_folder_of_drawings_is_learned(self):
        from PIL import Image, ImageDraw
        server = self.start("--devices", "cpu:1")
        numbers = random.Random(5)
        folder = server.state / "shapes"
        for i in range(120):
            kind, color = (("disc", (210, 40, 40)), ("square", (40, 40, 210)))[i % 2]
            image = Image.new("RGB", (numbers.randint(20, 40), 24), (225, 225, 225))
            draw = ImageDraw.Draw(image)
            x, y = image.width // 2 + numbers.randint(-2, 2), 12
            draw_shape = draw.ellipse if kind == "disc" else draw.rectangle
            draw_shape((x - 7, y - 7, x + 7, y + 7), fill=color)
            (folder / kind).mkdir(parents=True, exist_ok=True)
            image.save(folder / kind / f"{i}.{'jpg' if i % 3 else 'png'}")
        server.cli("datasets", "upload", "shapes", folder, "--image-size", "16")
        dataset = server.json("datasets", "describe", "shapes")
        self.assertEqual("120", dataset["rows"])
        self.assertEqual(["3", "16", "16"], dataset["feature_shape"])
        labels = dataset["description"]["columns"][1]
        self.assertEqual(["disc", "square"], labels["categories"])
        self.assertEqual(["60", "60"], labels["category_rows"])
        again = server.json("datasets", "upload", "shapes", folder, "--image-size", "16")
        self.assertEqual(dataset["id"], again["id"], "the same bytes change nothing")
        done = server.wait_job(server.submit(SHAPES))
        self.assertEqual("SUCCEEDED", done["state"], done)
        self.assertEqual(done["memory"]["planned_peak_bytes"],
                         done["memory"]["measured_peak_bytes"])
        self.assertGreaterEqual(done["evaluation"]["accuracy"], 0.9)

    def test_classes_come_from_folders_files_and_another_dataset(self):
        server = self.start("--devices", "cpu:1")
        dot = png(4, 4)
        first = self.write(server, {"0.tar": tar({"0.png": dot, "0.cls": b"zebra\n"}),
                                    "1.tar": tar({"0.png": dot, "0.cls": b"ant"})})
        server.cli("datasets", "upload", "shards", first / "0.tar", first / "1.tar")
        dataset = server.json("datasets", "describe", "shards")
        self.assertEqual("2", dataset["rows"])
        self.assertEqual(["ant", "zebra"],
                         dataset["description"]["columns"][1]["categories"])
        one = self.write(server, {"zebra/1.png": dot}, "one")
        self.assertIn("1 image of one class only", self.refusal(server, one))
        server.cli("datasets", "upload", "one", one, "--like", "shards")
        labels = server.json("datasets", "describe", "one")["description"]["columns"][1]
        self.assertEqual(["ant", "zebra"], labels["categories"])
        self.assertEqual(["0", "1"], labels["category_rows"])

    def test_refusals_name_the_image_and_the_remedy(self):
        server = self.start("--devices", "cpu:1")
        dot = png(4, 4)
        folder = self.write(server, {"a/1.png": dot, "b/2.jpg": b"\xff\xd8\xff\xe0 cut"})
        text = self.refusal(server, folder)
        self.assertIn("set.tar: b/2.jpg: is no JPEG file", text)
        self.write(server, {"b/2.jpg": png(4, 4, claimed=(16000, 16000))})
        self.assertIn("b/2.jpg: has 16000 x 16000 pixels", self.refusal(server, folder))
        self.write(server, {"b/2.jpg": png(5, 4)})
        text = self.refusal(server, folder)
        self.assertIn("b/2.jpg has 5 x 4 pixels, but the first image", text)
        self.assertIn("--image-size 4", text)
        self.write(server, {"c/notes.txt": b"no image"})
        self.assertIn("c is the folder of a class without images",
                      self.refusal(server, folder))
        packed = self.write(server, {"x.tar.gz": gzip.compress(tar({"a/1.png": dot}))},
                            "packed")
        self.assertIn("compressed archive", self.refusal(server, packed / "x.tar.gz"))
        leaves = self.write(server, {"x.tar": tar({"../1.png": dot})}, "leaves")
        self.assertIn('leaves the archive with ".."',
                      self.refusal(server, leaves / "x.tar"))
        server.cli("datasets", "get", "broken", code=3)


if __name__ == "__main__":
    harness.main()
