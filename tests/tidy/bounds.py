"""Counts that may only fall: what an older tree has more of than the rule says.

A count above its bound is a finding. A count below it is a note, "lower the
bound to N": lower it in the same change. A folder without a row has the bound
0, and the longest matching folder counts.
"""
import collections

# Functions with more than four parameters. Inner loops of the back ends take
# pointers, strides and counts, one each.
PARAMETERS = {
    "benchmarks": 2,
    "client": 13,
    "engine": 20,
    "engine/backends": 50,
    "scheduler": 6,
    "server/control": 4,
    "server/ipc": 1,
    "server/serving": 4,
    "server/store": 1,
    "server/worker": 2,
    "tests": 13,
}

# Comments whose first sentence is a fragment (comment_rules.py).
FRAGMENTS = {
    "benchmarks": 3,
    "client": 22,
    "engine": 312,
    "scheduler": 113,
    "server": 135,
    "tests": 110,
}


def by_folder(paths, table):
    """How many of `paths` fall to each row; the rest under their top folder."""
    counts = collections.Counter({folder: 0 for folder in table})
    for path in paths:
        rows = [f for f in table if path.startswith(f + "/")]
        counts[max(rows, key=len) if rows else path.split("/")[0]] += 1
    return counts


def above(label, places, table):
    """Findings: `places` are "path:line: text", one of each fault."""
    counts = by_folder(places, table)
    for folder, count in sorted(counts.items()):
        if count <= table.get(folder, 0):
            continue
        yield (f"{folder}: {count} {label}, at most {table.get(folder, 0)} "
               "(bounds.py); all of them: house_rules.py --list")


def below(name, places, table):
    """Notes: which bounds can be lowered."""
    for folder, count in sorted(by_folder(places, table).items()):
        if count < table.get(folder, 0):
            yield f'bounds.py: lower the bound to {count}: {name}["{folder}"]'
