#!/usr/bin/env python3
"""Which files `./dev lint --since` looks at: those with other code."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import changed_code  # noqa: E402

BEFORE = '''// Adds two.
#include "old/sum.h"

/* A note. */
int Add(int a, int b) { return a + b; }  // no overflow
const char* kAddress = "http://here";  /* here */
const char* kRaw = R"x(// kept "as it is")x";
int kMillion = 1'000'000;  // digits
'''


class ChangedCodeTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.git("init", "-q")
        self.write("old/sum.cc", BEFORE)
        self.git("add", "-A")
        self.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one")

    def git(self, *command):
        subprocess.run(["git", *command], cwd=self.root, check=True)

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def changed(self):
        return changed_code.changed_since(self.root, "HEAD")

    def changed_with(self, before, after):
        self.assertIn(before, BEFORE)
        self.write("old/sum.cc", BEFORE.replace(before, after))
        return bool(self.changed())

    def test_nothing_changed(self):
        self.assertEqual(set(), self.changed())

    def test_comments_are_no_code(self):
        self.assertFalse(self.changed_with("Adds two.", "Adds two numbers.\n//\n// More."))
        self.assertFalse(self.changed_with("/* A note. */", ""))
        self.assertFalse(self.changed_with("// no overflow", "// may overflow"))
        self.assertFalse(self.changed_with("// digits", '// "digits'))

    def test_paths_of_own_headers_and_blanks_are_no_code(self):
        self.assertFalse(self.changed_with("old/sum.h", "new/room/sum.h"))
        self.assertFalse(self.changed_with("{ return a + b; }", "{\n  return a + b;\n}"))

    def test_an_include_that_comes_or_goes_is_code(self):
        self.assertTrue(self.changed_with('#include "old/sum.h"\n', ""))
        self.assertTrue(self.changed_with('#include "old/sum.h"\n',
                                          '#include "old/sum.h"\n#include "old/more.h"\n'))
        self.assertTrue(self.changed_with("old/sum.h", "old/other.h"))

    def test_code_is(self):
        self.assertTrue(self.changed_with("a + b", "a - b"))
        self.assertTrue(self.changed_with("1'000'000", "1'000'001"))

    def test_what_looks_like_a_comment_in_a_string_is_code(self):
        self.assertTrue(self.changed_with("http://here", "http://there"))
        self.assertTrue(self.changed_with("// kept", "// lost"))

    def test_comments_to_tools_are_code(self):
        self.assertTrue(self.changed_with("// no overflow", "// NOLINT"))

    def test_a_moved_file_has_the_code_of_the_old_one(self):
        (self.root / "new").mkdir()
        self.git("mv", "old/sum.cc", "new/sum.cc")
        self.assertEqual(set(), self.changed())
        self.write("new/sum.cc", BEFORE.replace("a + b", "a - b"))
        self.assertEqual({"new/sum.cc"}, self.changed())

    def test_what_is_no_source_counts_by_its_bytes(self):
        (self.root / "data.gz").write_bytes(b"\xff\x00//")
        self.git("add", "-A")
        self.git("-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "two")
        self.assertEqual(set(), self.changed())
        (self.root / "data.gz").write_bytes(b"\xff\x00// more")
        self.assertEqual({"data.gz"}, self.changed())

    def test_new_files_are_changed_and_removed_ones_are_not(self):
        self.write("new.cc", "int x;\n")
        self.assertEqual({"new.cc"}, self.changed())
        self.git("add", "-A")
        self.assertEqual({"new.cc"}, self.changed())
        self.git("rm", "-q", "old/sum.cc")
        self.assertEqual({"new.cc"}, self.changed())


if __name__ == "__main__":
    unittest.main()
