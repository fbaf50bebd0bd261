#!/usr/bin/env python3
"""docs/from_pytorch.md names only commands, options, settings, fields of a job file,
fields of the API and metrics that exist, and each of its rows says what one should do.
The source says what exists."""
import functools
import pathlib
import re
import unittest

from proto_messages import message_of, parse_messages

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/from_pytorch.md"
WORDS = ("works", "differs", "not yet", "not planned")
# Facilities of the pages that gpupool was made after; the table has all of them.
FACILITIES = 105

# Words in the last column that look like fields of a job file and are something else.
OTHER_WORDS = {
    "alias",                                      # a pass
    "amsgrad", "collate_fn", "grad_fn", "hue", "max_norm", "padding_idx",
    "sparse",                                     # PyTorch's
    "bf16", "fp16", "medium", "tf32",             # precisions
    "cpu", "cuda", "never", "now", "off",         # values and answers
    "kaiming_normal",                             # a value of initial_weight
}


@functools.cache
def messages():
    """Returns {message: {field: (type, is a map)}} of the API."""
    found = {}
    for path in sorted((ROOT / "proto/gpupool/v1").glob("*.proto")):
        found.update(parse_messages(re.sub(r"//.*", "", path.read_text())))
    return found


@functools.cache
def fields():
    return {field for message in messages().values() for field in message}


@functools.cache
def strings_of(folder):
    """Returns the string literals of a folder's sources."""
    return {text for path in sorted((ROOT / folder).rglob("*.cc"))
            for text in re.findall(r'"([^"\n]*)"', path.read_text())}


@functools.cache
def options():
    """Returns the options of the command line, without their signs."""
    return {name for text in strings_of("client/cli")
            for name in re.findall(r"(?<![\w-])-{1,2}([A-Za-z][a-z-]*)", text)}


def rows():
    """Returns the cells of each row of the tables of PyTorch's facilities."""
    found = []
    for line in re.findall(r"^\| (.*) \|$", PAGE.read_text(), re.M):
        cells = [cell.strip() for cell in (line + " ").split(" | ")]
        if cells[0] not in ("in PyTorch", "word") and cells[0] not in WORDS:
            found.append(cells)
    return found


def code():
    """Returns every piece of code in the last column."""
    return [text for row in rows() for text in re.findall(r"`([^`]+)`", row[-1])]


def resolve(path, message="JobSpec"):
    """Returns whether a path such as "training.seed" leads to a field."""
    name, _, rest = path.partition(".")
    if name not in messages().get(message, {}):
        return False
    of_type, _ = messages()[message][name]
    return not rest or resolve(rest, message_of(messages(), of_type, message))


def field_exists(word):
    """Returns whether the word is a field, or a path of fields from a job or from any
    message."""
    if "." not in word:
        return word in fields()
    return any(resolve(word, message) for message in messages())


def unknown_words(command):
    """Returns the verbs and options of a command of gpupool that do not exist."""
    words = re.split(r" [|>&] ?", command)[0].split()[1:]
    verbs = []
    while words and re.fullmatch(r"[a-z][a-z-]*", words[0]):
        verbs.append(words.pop(0))
    flags = [word.lstrip("-") for word in words if re.match(r"--?[A-Za-z]", word)]
    return [v for v in verbs[:2] if v not in strings_of("client/cli")] + [
        flag for flag in flags if flag not in options() | {"o"}]


class PyTorchTable(unittest.TestCase):
    def test_every_row_has_one_of_the_four_words_and_says_how(self):
        for row in rows():
            with self.subTest(row=row[0]):
                self.assertEqual(3, len(row))
                self.assertIn(row[1], WORDS)
                self.assertTrue(row[2])
        self.assertGreaterEqual(len(rows()), FACILITIES)

    def test_no_facility_is_there_twice(self):
        names = [row[0] for row in rows()]
        self.assertEqual(len(set(names)), len(names))

    def test_commands_exist(self):
        commands = [text for text in code() if text.startswith("gpupool ")]
        self.assertGreater(len(commands), 60)
        for command in commands:
            self.assertEqual([], unknown_words(command), command)

    def test_settings_of_the_server_exist(self):
        settings = set(re.findall(r'\{kGroup,\s*"([a-z-]+)"',
                                  (ROOT / "server/settings.cc").read_text()))
        named = [name for text in code() if text.startswith("gpupoold ")
                 for name in re.findall(r"--([a-z-]+)", text)]
        self.assertGreater(len(named), 2)
        self.assertLessEqual(set(named), settings)

    def test_fields_of_job_files_exist(self):
        words = {match.group(1) for text in code() if (match := re.match(
            r"([a-z_0-9]+(?:\.[a-z_0-9]+)*)(?::|$)", text))}
        checked = words - OTHER_WORDS
        self.assertGreater(len(checked), 50)
        for word in sorted(checked):
            if not word.startswith(("torch.", "safetensors.")):
                self.assertTrue(field_exists(word), word)

    def test_fields_of_the_api_exist(self):
        named = [tuple(text.split(".")) for text in code()
                 if re.fullmatch(r"[A-Z]\w+\.[a-z_]+", text)]
        self.assertGreater(len(named), 4)
        for message, field in named:
            self.assertIn(field, messages().get(message, {}), f"{message}.{field}")

    def test_metrics_exist(self):
        families = (ROOT / "server/metrics/families.inc").read_text()
        named = [name for text in code() for name in re.findall(r"^gpupool_\w+", text)]
        self.assertTrue(named)
        for name in named:
            self.assertIn(f'"{name}"', families)

    def test_other_words_are_no_fields(self):
        """Keeps the exceptions few: what has become a field is none."""
        named = {re.split(r"[: ]", text)[0] for text in code()}
        self.assertLessEqual(OTHER_WORDS, named)


class Reading(unittest.TestCase):
    """What the checks above read, they read right."""

    def test_what_does_not_exist_is_found(self):
        self.assertEqual(["wach"], unknown_words("gpupool wach JOB"))
        self.assertEqual(["plott"], unknown_words("gpupool watch JOB --plott"))
        self.assertFalse(field_exists("training.sead"))
        self.assertFalse(field_exists("sead"))

    def test_what_exists_is_not(self):
        self.assertEqual([], unknown_words("gpupool watch JOB --plot"))
        self.assertTrue(field_exists("training.seed"))
        self.assertTrue(field_exists("data.held_out.fold"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
