#!/usr/bin/env python3
"""Formatting, headers that compile alone, clang-tidy, and the house rules.

Results of the slow checks are kept in the user's cache folder, by a digest of
the file, of everything of ours that it includes, of the rules and of the tools'
versions. So a second run looks only at what changed, in another clone, too.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

import changed_code

ROOT = pathlib.Path(__file__).resolve().parent.parent
CUDA = "engine/backends/cuda/"
FOLDERS = ["audit", "client", "engine", "scheduler", "server", "tls"]
INCLUDE = re.compile(r'^\s*#include\s+"([^"]+)"', re.M)


def tracked(*patterns):
    """Returns the files that git tracks or would track (not ignored)."""
    out = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return sorted(set(p for p in out.split() if (ROOT / p).exists()))


class Closure:
    """Digests of files with everything of ours that they include."""

    def __init__(self, roots):
        self.roots = [pathlib.Path(r) for r in roots]
        self.includes = {}

    def resolve(self, name):
        for root in self.roots:
            if (root / name).is_file():
                return root / name
        return None

    def direct(self, path):
        if path not in self.includes:
            found = INCLUDE.findall(path.read_text(errors="replace"))
            self.includes[path] = [p for p in map(self.resolve, found) if p]
        return self.includes[path]

    def digest(self, path, extra):
        """Returns a digest of the file, of all that it includes, and of `extra`.

        ROOT's path in `extra` does not count.
        """
        seen, todo = set(), [path]
        while todo:
            current = todo.pop()
            if current not in seen:
                seen.add(current)
                todo.extend(self.direct(current))
        hasher = hashlib.sha256(extra.replace(str(ROOT), "").encode())
        for item in sorted(seen):
            hasher.update(item.read_bytes())
        return hasher.hexdigest()


def cache_folder():
    """Returns the folder of results, which all clones of a user share."""
    home = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(home) / "gpupool-lint"


def version_of(tool):
    return subprocess.run([tool, "--version"], check=True, capture_output=True,
                          text=True).stdout


def run_cached(name, jobs):
    """Runs `jobs`: (label, key, command). Prints failures and returns their labels."""
    folder = cache_folder() / name
    folder.mkdir(parents=True, exist_ok=True)
    todo = [job for job in jobs if not (folder / job[1]).exists()]
    print(f"lint: {name}: {len(jobs)} files, {len(todo)} to check", flush=True)

    def work(job):
        label, key, command = job
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode == 0:
            (folder / key).touch()
            return None
        print(f"{label}\n{done.stdout}{done.stderr}", flush=True)
        return label

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return [failure for failure in pool.map(work, todo) if failure]


def check_format():
    files = tracked("*.h", "*.cc")
    if not files:
        return []
    done = subprocess.run(["clang-format", "--dry-run", "-Werror", *files],
                          cwd=ROOT, capture_output=True, text=True)
    if done.returncode == 0:
        return []
    print(done.stderr[-4000:] + "\nRun ./dev format.")
    return ["format"]


def single_commands(build):
    """Returns the compile commands, one for each source.

    Sources that CMake compiles together each get the command of the file that
    includes them (cmake/targets.cmake).
    """
    commands = []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        joined = pathlib.Path(entry["file"])
        if joined.parent.name != "Unity":
            commands.append(entry)
            continue
        for source in re.findall(r'^#include "(.*)"$', joined.read_text(), re.M):
            commands.append({**entry, "file": source, "command":
                             entry["command"].replace(str(joined), source)})
    return commands


def compile_flags(build):
    """Returns the -I and -isystem flags of any of our sources, without -D."""
    flags = {}
    for entry in single_commands(build):
        path = os.path.relpath(entry["file"], ROOT)
        words = entry["command"].split()
        flags[path] = [w for i, w in enumerate(words)
                       if w.startswith(("-I", "-D", "-std"))
                       or w == "-isystem" or words[i - 1] == "-isystem"]
    return flags


def cuda_includes(flags):
    """Returns the -isystem flags of the CUDA module's sources; none if not built."""
    return sorted({f"-isystem{words[i + 1]}" for path, words in flags.items()
                   if path.startswith(CUDA) for i, word in enumerate(words)
                   if word == "-isystem" and "cuda" in words[i + 1]})


def header_jobs(build, flags, closure):
    everything = sorted({f for words in flags.values()
                         for f in words if f.startswith("-I")})
    system = f"{build}/proto"
    common = ["g++", "-std=c++20", "-fopenmp", "-fsyntax-only", "-Wall", "-Wextra",
              "-Werror", *everything, "-isystem", system, "-x", "c++",
              "/dev/null", "-include"]
    toolkit = cuda_includes(flags)
    version = version_of("g++")
    for path in tracked(*(f"{folder}/*.h" for folder in FOLDERS)):
        own = common
        if path.startswith(CUDA):
            if not toolkit:
                continue
            own = [common[0], *toolkit, *common[1:]]
        yield path, closure.digest(ROOT / path, version + " ".join(own)), [*own, path]


def tidy_database(build):
    """Writes the compile commands without g++'s precompiled headers and warnings,
    which clang does not know. Returns the folder of the file."""
    folder = build / "lint"
    folder.mkdir(exist_ok=True)
    text = json.dumps(single_commands(build), indent=1)
    (folder / "compile_commands.json").write_text(
        re.sub(r" -Winvalid-pch -include \S+/cmake_pch\.hxx|"
               r" -Wno-(subobject-linkage|restrict|stringop-overflow)\b", "", text))
    return folder


def tidy_jobs(build, flags, closure):
    database = tidy_database(build)
    rules = version_of("clang-tidy") + (ROOT / ".clang-tidy").read_text()
    for path in tracked(*(f"{folder}/*.cc" for folder in FOLDERS)):
        if path in flags:
            key = closure.digest(ROOT / path, rules + " ".join(flags[path]))
            yield path, key, ["clang-tidy", "--quiet", "-p", str(database), path]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--no-clang-tidy", action="store_true")
    parser.add_argument("--since", metavar="REVISION",
                        help="the slow checks look only at files that have other "
                        "code than at this revision")
    options = parser.parse_args()
    build = (ROOT / options.build).resolve()
    closure = Closure([ROOT, build / "proto"])
    flags = compile_flags(build)
    changed = None  # all files
    if options.since:
        changed = changed_code.changed_since(ROOT, options.since)

    def wanted(jobs):
        return [job for job in jobs if changed is None or job[0] in changed]

    failures = check_format()
    failures += run_cached("headers", wanted(header_jobs(build, flags, closure)))
    if not options.no_clang_tidy:
        failures += run_cached("clang-tidy",
                               wanted(tidy_jobs(build, flags, closure)))
    house = subprocess.run([sys.executable, "tests/tidy/house_rules.py"], cwd=ROOT)
    if failures or house.returncode:
        print(f"lint: {len(failures)} failures: {' '.join(failures)}"
              + ("" if house.returncode == 0 else " and broken house rules"))
        return 1
    print("lint: clean")
    return 0


if __name__ == "__main__":
    sys.exit(main())
