"""What a server uses at one moment: memory, descriptors and threads of its
processes, and the bytes of its state folder by kind."""

import os
import pathlib
import re

KINDS = ("database", "blobs", "uploads", "spools", "audit", "logs", "other")
_MEMORY = re.compile(rb"^(Rss|Pss|Pss_Anon):\s+(\d+) kB", re.M)


def process_facts(pid):
    """Returns the facts of a process, or None when it has ended.

    `rss`, `pss` and `anonymous` are bytes. The latter are those of `pss` that no file
    is behind, so a heap that grows is there.
    """
    folder = pathlib.Path("/proc", str(pid))
    try:
        found = {name.decode(): 1024 * int(kilobytes) for name, kilobytes in
                 _MEMORY.findall((folder / "smaps_rollup").read_bytes())}
        threads = re.search(r"^Threads:\s+(\d+)", (folder / "status").read_text(), re.M)
        descriptors = len(os.listdir(folder / "fd"))
    except OSError:
        return None
    # A process that has ended and was not waited for has no memory.
    if not threads or "Rss" not in found:
        return None
    return {"pid": pid, "rss": found["Rss"], "pss": found.get("Pss", 0),
            "anonymous": found.get("Pss_Anon", 0), "descriptors": descriptors,
            "threads": int(threads[1])}


def kind_of(path):
    """Returns the kind of a file by its path in the state folder. None: the reserve for
    a full disk, which always has the same size."""
    parts = path.parts
    if parts[0] == "gpupool.db-reserve":
        return None
    if parts[0].startswith("gpupool.db"):
        return "database"
    if parts[0] == "blobs":
        return "uploads" if parts[1:2] == ("partial",) else "blobs"
    if parts[0] == "audit":
        return "audit"
    if path.name == "gpupoold.log" or (parts[0] == "workers" and "log" in path.name):
        return "logs"
    if parts[0] == "workers" and "spool" in path.name:
        return "spools"
    return "other"


def state_bytes(folder):
    """Returns the bytes of the files below a state folder, by kind."""
    found = dict.fromkeys(KINDS, 0)
    for parent, _, names in os.walk(folder):
        for name in names:
            path = pathlib.Path(parent, name)
            kind = kind_of(path.relative_to(folder))
            if kind:
                try:
                    found[kind] += path.lstat().st_size
                except OSError:  # deleted meanwhile
                    pass
    return found


def take(processes, folder):
    """Returns the facts of processes, given as {name: pid}, and of the state folder."""
    facts = {name: process_facts(pid) for name, pid in sorted(processes.items())}
    return {"processes": {name: fact for name, fact in facts.items() if fact},
            "state": state_bytes(folder)}
