#!/usr/bin/env python3
"""docs/security.md names only tests that exist, in the files where they are, and each
row of its tables of attacks has a test or says why there is none."""
import functools
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/security.md"
# Headings whose tables have a last column of tests.
HEADINGS = ("Inference servers", "ONNX", "gRPC",
            "Protobuf, archives, weights and the sandbox", "Attacks that were tried")
TEST_LINK = re.compile(r"\[`(\w+\.\w+|test_\w+)`\]\(\.\./(tests/[\w/.]+)\)")
REASON = re.compile(r"\bno test: \w.*|\bno test \w.*")
MACRO = re.compile(r"^\s*(?:TEST|TEST_F|TEST_P|TYPED_TEST)\(\s*(\w+),\s*(\w+)\)", re.M)


@functools.cache
def tests_of(path):
    """Returns the names of the tests of a source file, none if it does not exist."""
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    text = file.read_text()
    if file.suffix == ".py":
        return frozenset(re.findall(r"^\s+def (test_\w+)\(", text, re.M))
    return frozenset(".".join(names) for names in MACRO.findall(text))


def missing_tests(text):
    """Returns what is wrong with the links to tests in a page."""
    wrong = [f"{path} has no test {name}" for name, path in TEST_LINK.findall(text)
             if name not in tests_of(path)]
    links = re.findall(r"\]\(\.\./tests/[^)]*\)", text)
    if len(links) != len(TEST_LINK.findall(text)):
        wrong.append("a link to tests/ is not of the form [`Suite.Name`](../tests/FILE)")
    return wrong


def rows_below(heading, text):
    """Returns the cells of each row of the table below a heading."""
    part = re.search(rf"^##+ {re.escape(heading)}\n(.*?)(?=^##|\Z)", text, re.M | re.S)
    lines = re.findall(r"^\| (.*) \|$", part.group(1), re.M)
    return [[cell.strip() for cell in line.split(" | ")] for line in lines[1:]]


def is_covered(cell):
    """Returns whether the last cell of a row has a test or a reason."""
    return bool(TEST_LINK.search(cell) or REASON.search(cell))


class SecurityTable(unittest.TestCase):
    def test_every_test_of_the_page_exists(self):
        text = PAGE.read_text()
        self.assertEqual([], missing_tests(text))
        self.assertGreater(len(TEST_LINK.findall(text)), 80)

    def test_every_row_has_a_test_or_a_reason(self):
        for heading in HEADINGS:
            rows = rows_below(heading, PAGE.read_text())
            self.assertGreater(len(rows), 3, heading)
            for cells in rows:
                self.assertEqual(4, len(cells), cells)
                self.assertTrue(is_covered(cells[-1]), cells)

    def test_what_is_not_covered_is_called_open(self):
        for cells in rows_below("Attacks that were tried", PAGE.read_text()):
            if not TEST_LINK.search(cells[-1]):
                self.assertIn("**open**", cells[2].lower(), cells)

    def test_a_cve_stands_once(self):
        found = []
        for heading in HEADINGS[:-1]:
            for cells in rows_below(heading, PAGE.read_text()):
                found += re.findall(r"CVE-\d{4}-\d{4,}", cells[0])
        self.assertGreater(len(found), 50)
        self.assertEqual(sorted(set(found)), sorted(found))


class Reading(unittest.TestCase):
    """What the checks above read, they read right."""

    def test_a_test_that_does_not_exist_is_found(self):
        good = "[`CheckNameTest.TakesLettersDigitsAndThreeSigns`](../tests/server/api/" \
               "validation/convert_test.cc)"
        self.assertEqual([], missing_tests(good))
        self.assertEqual(1, len(missing_tests(good.replace("Takes", "Drops"))))
        self.assertEqual(1, len(missing_tests(good.replace("convert_test", "none_test"))))

    def test_tests_of_python_are_methods(self):
        self.assertIn("test_tests_of_python_are_methods",
                      tests_of("tests/tidy/security_table_test.py"))

    def test_a_link_of_another_form_is_found(self):
        self.assertEqual(1, len(missing_tests("[tests](../tests/tidy)")))

    def test_a_reason_needs_words(self):
        self.assertTrue(is_covered("no test: it is the library's own code"))
        self.assertFalse(is_covered("no test"))
        self.assertFalse(is_covered(""))

    def test_rows_are_those_of_the_heading(self):
        text = "## A\n| x | y |\n|---|---|\n| 1 | 2 |\n## B\n| x |\n|---|\n| 3 |\n"
        self.assertEqual([["1", "2"]], rows_below("A", text))


if __name__ == "__main__":
    unittest.main(verbosity=2)
