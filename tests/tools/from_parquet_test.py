#!/usr/bin/env python3
"""examples/from_parquet.py: what it converts, and one line with exit code 2 for what it
cannot. Without pyarrow only the line that says so is checked."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "examples" / "from_parquet.py"

try:
    import pyarrow
    import pyarrow.feather
    import pyarrow.parquet
except ImportError:
    pyarrow = None


class FromParquet(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def convert(self, name, out, *options):
        return subprocess.run(
            [sys.executable, SCRIPT, self.folder / name, self.folder / out, *options],
            capture_output=True, text=True, check=False)

    def refusal(self, name, out, *options):
        done = self.convert(name, out, *options)
        self.assertEqual(2, done.returncode, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        return done.stderr

    def write(self, name, columns):
        pyarrow.parquet.write_table(pyarrow.table(columns), self.folder / name)

    @unittest.skipIf(pyarrow, "pyarrow is there")
    def test_without_pyarrow_it_says_what_to_install(self):
        self.assertIn("pip install pyarrow", self.refusal("a.parquet", "a.jsonl"))

    @unittest.skipUnless(pyarrow, "needs pyarrow")
    def test_rows_become_json_lines(self):
        self.write("a.parquet", {"x": [1.5, None], "kind": ["oak", "elm"]})
        done = self.convert("a.parquet", "a.jsonl")
        self.assertEqual(0, done.returncode, done.stderr)
        lines = (self.folder / "a.jsonl").read_text().splitlines()
        self.assertEqual([{"x": 1.5, "kind": "oak"}, {"x": None, "kind": "elm"}],
                         [json.loads(line) for line in lines])

    @unittest.skipUnless(pyarrow, "needs pyarrow")
    def test_bad_files_are_one_line(self):
        self.assertEqual(1, self.refusal("none.parquet", "a.jsonl").count("\n"))
        self.write("a.parquet", {"x": [1.5] * 500, "kind": [1] * 500})
        whole = (self.folder / "a.parquet").read_bytes()
        for content, part in ((b"", "is empty"), (b"x,y\n1,2\n", "is neither a Parquet"),
                              (b"PAR1", "bad.parquet"), (b"ARROW1", "bad.parquet"),
                              (whole[:-100], "bad.parquet"),
                              (whole[:20] + b"\xff" * 60 + whole[80:], "bad.parquet")):
            (self.folder / "bad.parquet").write_bytes(content)
            text = self.refusal("bad.parquet", "a.jsonl")
            self.assertIn(part, text)
            self.assertEqual(1, text.count("\n"), text)
        (self.folder / "folder").mkdir()
        self.assertIn("folder", self.refusal("folder", "a.jsonl"))

    @unittest.skipUnless(pyarrow, "needs pyarrow")
    def test_wrong_options_are_refused_in_words(self):
        self.write("a.parquet", {"x": [1.5], "kind": ["oak"]})
        self.write("one.parquet", {"x": [1.5]})
        self.assertIn("ends in neither", self.refusal("a.parquet", "a.csv"))
        self.assertIn("no column 'z'; the file has x, kind",
                      self.refusal("a.parquet", "a.npz", "--label", "z"))
        self.assertIn("'kind' has text", self.refusal("a.parquet", "a.npz"))
        self.assertIn("the only column is 'x'", self.refusal("one.parquet", "a.npz"))
        self.assertIn("a.jsonl", self.refusal("a.parquet", "nowhere/a.jsonl"))


if __name__ == "__main__":
    unittest.main()
