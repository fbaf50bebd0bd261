#!/usr/bin/env python3
"""Reads the output of ctest.

    test_report.py flaky LOG...    a line `flaky: NAME` for each test that failed
                                   and passed when it was tried again
    test_report.py failed LOG...   a line for each test that failed in the end,
                                   with its seeds and where its output is

Ends with 0 unless a log cannot be read.
"""
import dataclasses
import re
import sys

# CTest may add to a name what its parameter is: "Faults/A.B/Once  # GetParam() =".
RESULT = re.compile(r"^\s*(?:\d+/\d+ )?Test\s+#\d+: (\S+).*?"
                    r"(Passed|\*\*\*\S.*?|Not Run.*?)\s+[\d.]+ sec\s*$")
SEED = re.compile(r"\b\w*seed\w*\s*[=:]?\s*\d+", re.I)


@dataclasses.dataclass
class Run:
    name: str
    status: str  # "Passed", or as ctest says: "Failed", "Timeout", "Skipped"
    line: int  # of the log, where its result stands
    output: list

    @property
    def failed(self):
        return self.status not in ("Passed", "Skipped", "Not Run (Disabled)")


def runs(text):
    """Returns every run of a test, in the order in which they ended."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        result = RESULT.match(line)
        if result:
            status = result.group(2).lstrip("*").strip()
            found.append(Run(result.group(1), status, number, []))
        elif found and not re.match(r"\s+Start +\d+: ", line):
            found[-1].output.append(line)
    return found


def flaky(found):
    """Returns the names of tests that first failed and later passed."""
    failed, names = set(), []
    for run in found:
        if run.failed:
            failed.add(run.name)
        elif run.status == "Passed" and run.name in failed and run.name not in names:
            names.append(run.name)
    return names


def failed(found):
    """Returns the last run of each test whose last run failed."""
    last = {run.name: run for run in found}
    return [run for run in last.values() if run.failed]


def seeds(run):
    found = dict.fromkeys(m.group(0) for line in run.output for m in SEED.finditer(line))
    return ", ".join(found)


def main():
    kind, logs = sys.argv[1], sys.argv[2:]
    for log in logs:
        with open(log, errors="replace") as file:
            found = runs(file.read())
        if kind == "flaky":
            for name in flaky(found):
                print(f"flaky: {name}")
        else:
            for run in failed(found):
                told = seeds(run)
                print(f"failed: {run.name} ({run.status}{', ' + told if told else ''}), "
                      f"{log}:{run.line}")


if __name__ == "__main__":
    main()
