#!/usr/bin/env python3
"""CSV files and JSON lines as people have them, through the real processes: text,
missing cells, a description, training on text classes, and a validation set."""
import json
import pathlib
import random
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import harness  # noqa: E402

# A number and three numbers for the colors -> three kinds.
TREES = """\
name: trees
model:
  input_shape: [4]
  layers: [{dense: {units: 16}}, relu, {dense: {units: 3}}]
data: {dataset: trees, held_out: {every: 4}, scaling: {standardize: {}}}
training:
  cross_entropy: {}
  adam: {learning_rate: 0.02}
  batch_size: 20
  epochs: 60
  seed: 3
"""
OPTIONS = ["--header", "--missing", "mean", "--text", "one-hot", "--skip-columns", "tag"]


def trees():
    """Returns rows of tag, height, color and kind. Red trees are oaks of any height,
    and some of their heights are missing."""
    numbers = random.Random(7)
    rows = []
    for i in range(240):
        color = numbers.choice(["red", "light, green", "blue"])
        height = numbers.choice([-1, 1]) * numbers.uniform(0.2, 1)
        kind = "oak" if color == "red" else "elm" if height > 0 else "ash"
        shown = "" if color == "red" and i % 3 == 0 else f"{height:.4f}"
        rows.append((f"t{i}", shown, color, kind))
    return rows


def csv_text(rows):
    lines = ["tag,height,color,kind"]
    lines += [f'{tag},{height},"{color}",{kind}' for tag, height, color, kind in rows]
    return "\r\n".join(lines)


def json_lines(rows):
    """Returns the rows as objects, every other one with its keys backwards."""
    lines = []
    for i, (tag, height, color, kind) in enumerate(rows):
        row = {"tag": tag, "height": float(height) if height else None,
               "color": color, "kind": kind}
        lines.append(json.dumps(dict(reversed(row.items())) if i % 2 else row))
    return "\n".join(lines)


class Tables(harness.TestCase):
    def upload(self, server, name, rows, *options, **expected):
        path = server.state / "trees.csv"
        path.write_text(csv_text(rows), newline="")
        return server.cli("datasets", "upload", name, path, *options, **expected)

    def finish(self, server, job):
        done = server.wait_job(job)
        self.assertEqual("SUCCEEDED", done["state"], done)
        self.assertEqual(done["memory"]["planned_peak_bytes"],
                         done["memory"]["measured_peak_bytes"])
        return done["evaluation"]

    def test_text_classes_are_learned_from_text_and_filled_numbers(self):
        server = self.start("--devices", "cpu:1")
        rows = trees()
        self.upload(server, "trees", rows, *OPTIONS)
        dataset = server.json("datasets", "describe", "trees")
        self.assertEqual(["4"], dataset["feature_shape"])
        self.assertEqual(3, dataset["classes"])
        height, color, kind = dataset["description"]["columns"]
        missing = sum(not row[1] for row in rows)
        self.assertGreater(missing, 0)
        self.assertEqual(str(missing), height["missing"])
        present = [float(row[1]) for row in rows if row[1]]
        self.assertAlmostEqual(sum(present) / len(present), height["mean"], places=4)
        self.assertEqual({"red", "light, green", "blue"}, set(color["categories"]))
        for i, name in enumerate(kind["categories"]):
            self.assertEqual(str(sum(row[3] == name for row in rows)),
                             kind["category_rows"][i])
        self.assertEqual(rows[0][3], kind["categories"][0], "in order of appearance")
        shown = server.cli("datasets", "describe", "trees")
        self.assertIn("height\tfeature\tfloat32", shown)
        self.assertIn("█", shown)
        self.assertGreaterEqual(self.finish(server, server.submit(TREES))["accuracy"], 0.9)

    def test_a_validation_set_has_the_same_categories(self):
        server = self.start("--devices", "cpu:1")
        rows = trees()
        self.upload(server, "trees", rows, *OPTIONS)
        order = server.json("datasets", "get", "trees")["description"]["columns"][2][
            "categories"]
        backwards = sorted(rows, key=lambda row: -order.index(row[3]))
        self.upload(server, "trees-val", backwards, *OPTIONS)
        text = TREES.replace("held_out: {every: 4}", "validation: trees-val")
        with self.assertRaises(harness.CommandFailed) as failed:
            server.submit(text)
        self.assertIn("gpupool datasets upload --like trees", failed.exception.stderr)
        server.cli("datasets", "delete", "trees-val")
        self.upload(server, "trees-val", backwards, *OPTIONS, "--like", "trees")
        self.assertGreaterEqual(self.finish(server, server.submit(text))["accuracy"], 0.9)

    def test_json_lines_hold_the_same_table(self):
        server = self.start("--devices", "cpu:1")
        rows = trees()
        self.upload(server, "trees", rows, *OPTIONS)
        path = server.state / "trees.jsonl"
        path.write_text(json_lines(rows))
        server.cli("datasets", "upload", "trees-val", path, *OPTIONS[1:])
        tables = [server.json("datasets", "describe", name)
                  for name in ("trees", "trees-val")]
        for table in tables:
            for column in table["description"]["columns"]:
                column.pop("first_values", None)  # numbers are written otherwise
        for field in ("rows", "feature_shape", "classes", "description"):
            self.assertEqual(tables[0][field], tables[1][field], field)
        text = TREES.replace("held_out: {every: 4}", "validation: trees-val")
        self.assertGreaterEqual(self.finish(server, server.submit(text))["accuracy"], 0.9)
        path.write_text('{"x": 1, "more": {"a": 2}, "y": 0}\n')
        text = server.cli("datasets", "upload", "nested", path, code=2)
        self.assertIn('trees.jsonl: line 1 key "more": the value is an object; write',
                      text)
        self.assertIn("--skip-columns", text)

    def test_refusals_name_the_cell_and_the_remedy(self):
        server = self.start("--devices", "cpu:1")
        rows = [("a", "1", "red", "oak"), ("b", "NA", "red", "elm"),
                ("c", "tall", "red", "elm")]
        text = self.upload(server, "trees", rows, "--header", code=2)
        self.assertIn('trees.csv: line 3 column 2 ("height"): the cell is missing ("NA")',
                      text)
        self.assertIn("--missing mean|zero|drop-row", text)
        text = self.upload(server, "trees", rows, "--header", "--missing", "drop-row",
                           code=2)
        self.assertIn('line 4 column 2 ("height"): "tall" is not a finite number', text)
        many = [(f"t{i}", "1", "red", "oak") for i in range(10_001)]
        text = self.upload(server, "trees", many, "--header", code=2)
        self.assertIn('line 10002 column 1 ("tag"): "t10000" would be category 10001 of '
                      "the column, the limit is 10000", text)
        self.assertIn("--skip-columns", text)
        server.cli("datasets", "get", "trees", code=3)

    def test_parquet_is_refused_with_a_remedy_by_name_and_by_bytes(self):
        server = self.start("--devices", "cpu:1")
        for name, options in (("rows.parquet", ()), ("rows.csv", ()),
                              ("rows.dat", ("--format", "csv"))):
            path = server.state / name
            path.write_bytes(b"PAR1\x15\x04\x15\x00\x15\x04PAR1")
            text = server.cli("datasets", "upload", "rows", path, *options, code=2)
            self.assertIn(f'file "{name}" is a Parquet file', text)
            self.assertIn("examples/from_parquet.py", text)
        server.cli("datasets", "get", "rows", code=3)


if __name__ == "__main__":
    harness.main()
