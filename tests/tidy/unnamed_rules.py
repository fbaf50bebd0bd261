"""Finds names that two sources of a folder give in their unnamed namespaces.

The sources of a folder are compiled as one (cmake/targets.cmake), where such
names meet. An alias may stand in several, if it is the same. Benchmarks are not
joined: each is a program.
"""
import collections
import pathlib
import re

import cpp_functions

ALIAS = re.compile(r"using (\w+) = ([^;]+);")
NAMED_TYPE = re.compile(r"(?:struct|class|enum class|enum|union) (\w+)\b(?!;)")
CONSTANT = re.compile(r"[\w:<>,*& ]+?\b(k[A-Z]\w*)\s*(?:\[|=|\{|;)")
FUNCTION = re.compile(r"(?:[\w:<>,*&\[\] ]*?[ *&>])?(\w+)\(")
# Macros, and what begins a line without giving a name.
NO_NAME = re.compile(r"[A-Z_]+\(|(?:template|namespace|using namespace|using|extern"
                     r"|static_assert|HWY_\w+)\b")
# Overloads for GoogleTest, told apart by their type.
OVERLOADED = {"PrintTo"}


def bodies(text):
    """Yields the texts between `namespace {` and its closing brace."""
    for match in re.finditer(r"^namespace \{$", text, re.M):
        start = match.end() - 1
        yield text[match.end():cpp_functions.closing(text, start)]


def named(text):
    """Yields (name, what an alias stands for, otherwise "") for what the unnamed
    namespaces define in lines that begin in the first column."""
    for body in bodies(cpp_functions.blanked(text)):
        for line in re.findall(r"^[^\s})#].*", body, re.M):
            alias = ALIAS.match(line)
            if alias:
                yield alias.groups()
                continue
            if NO_NAME.match(line):
                continue
            for pattern in (NAMED_TYPE, CONSTANT, FUNCTION):
                match = pattern.match(line)
                if match:
                    yield match.group(1), ""
                    break


def check_names(texts):
    """Yields the names that two sources of a folder define."""
    found = collections.defaultdict(lambda: collections.defaultdict(set))
    for path, text in texts.items():
        joined = path.endswith(".cc") and not path.startswith("benchmarks/")
        if joined and "hwy/foreach_target.h" not in text:
            for name, meaning in named(text):
                folder = str(pathlib.PurePath(path).parent)
                found[folder, name][path].add(meaning)
    for (folder, name), places in sorted(found.items()):
        meanings = {meaning for place in places.values() for meaning in place}
        alike = len(meanings) == 1 and "" not in meanings
        if len(places) > 1 and not alike and name not in OVERLOADED:
            yield (f"{folder}: '{name}' is in the unnamed namespaces of "
                   f"{', '.join(sorted(places))}; give each its own name")
