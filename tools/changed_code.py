"""Which files have other code than at a revision.

A C++ file has the same code when only its comments changed, or when it or its
headers were moved. Checks of the code find nothing new in it.
"""
import pathlib
import re
import subprocess

# Strings come first: what looks like a comment inside of one is none.
STRING = r'R"(?P<mark>\w*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\''
COMMENT = r'//(?:\\\n|[^\n])*|/\*.*?\*/'
TOKEN = re.compile(f"(?P<string>{STRING})|{COMMENT}", re.S)
OWN_INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"\n]*)"[^\n]*$', re.M)
SOURCES = {".h", ".cc", ".cu", ".cuh"}


def code(text):
    """Returns the text without comments, folders of own headers and form of blanks.

    Comments that speak to a tool (NOLINT) are code. The order of own includes is
    not: it follows from their folders.
    """
    headers = sorted(pathlib.PurePath(name).name for name in OWN_INCLUDE.findall(text))
    text = TOKEN.sub(
        lambda m: m.group() if m.group("string") or "NOLINT" in m.group() else " ",
        OWN_INCLUDE.sub("", text))
    return " ".join(headers + text.split())


def git(root, *command):
    return subprocess.run(["git", *command], cwd=root, check=True,
                          capture_output=True, text=True).stdout


def changed_since(root, revision):
    """Returns the paths whose code differs from the revision, new ones too."""
    # A name may hold blanks, so fields end with NUL.
    fields = iter(git(root, "diff", "--name-status", "-z", "-M30%", "-l20000",
                      revision).split("\0"))
    changed = set(git(root, "ls-files", "--others", "--exclude-standard",
                      "-z").split("\0")) - {""}
    for status in fields:
        if not status:
            break
        old = new = next(fields)
        if status[0] in "RC":
            new = next(fields)
        if status[0] == "D":
            continue
        if status[0] != "A" and pathlib.PurePath(new).suffix in SOURCES:
            before = git(root, "show", f"{revision}:{old}")
            after = (root / new).read_text()
            if code(before) == code(after):
                continue
        changed.add(new)
    return changed
