"""Counts that may only fall: violations that are left from an older tree.

A count above its bound is a finding. A count below it is a note, "lower the
bound to N": lower it in the same change. A folder without a row has the bound
0, and the longest matching folder counts.
"""
import collections

# Functions with more than four parameters. Inner loops of the back ends take
# pointers, strides and counts, one each. Tests stand in for functions of SQLite
# and NVML, whose signatures are theirs. Boost.Beast calls one of ours.
PARAMETERS = {
    "engine": 0,
    "engine/backends": 13,
    "server/http/port": 1,
    "tests": 3,
}

# Comments whose first sentence is a fragment (comment_rules.py).
FRAGMENTS = {
}

# Files directly in a folder, where they are more than folder_rules.FILE_LIMIT.
FILES = {
}


def by_folder(paths, table):
    """Returns how many of `paths` belong to each row, the rest under their top folder."""
    counts = collections.Counter({folder: 0 for folder in table})
    for path in paths:
        rows = [f for f in table if path.startswith(f + "/")]
        counts[max(rows, key=len) if rows else path.split("/")[0]] += 1
    return counts


def above(label, places, table):
    """Yields findings. `places` are "path:line: text", one for each fault."""
    counts = by_folder(places, table)
    for folder, count in sorted(counts.items()):
        if count <= table.get(folder, 0):
            continue
        yield (f"{folder}: {count} {label}, at most {table.get(folder, 0)} "
               "(bounds.py); all of them: house_rules.py --list")


def below(name, places, table):
    """Yields notes about bounds that can be lowered."""
    for folder, count in sorted(by_folder(places, table).items()):
        if count < table.get(folder, 0):
            yield f'bounds.py: lower the bound to {count}: {name}["{folder}"]'
