"""Tests that guess how long something takes.

A test waits for a state, drives a clock of its own, or ends what it started.
Allowed are, each under its name:

    tests/wait_until.h     WaitUntil, kPatience, LetOthersRun, LetTimePass
    tests/e2e/harness.py   wait_until, PATIENCE, let_others_run

and the lines of WAITS below, with the reason.
"""
import re

HELPERS = ("tests/wait_until.h", "tests/e2e/harness.py", "tests/tidy/")

# (file, part of the line): the reason why this wait is not a guess.
WAITS = {
    ("tests/client/testing/fake_server.cc", "milliseconds(5)"):
        "the stream of a fake server, which ends with its client",
    ("tests/e2e/gpu_script_test.py", "time.sleep(600)"):
        "a program that hangs, which the script under test ends",
    ("tests/fault/kill_storm_test.py", "timeout=5"):
        "a call without an answer is one of the outcomes that are judged",
    ("tests/server/worker/fake_engine.h", "milliseconds(1)"):
        "the turns of a wait for a file, which the test makes",
    ("tests/server/worker/fake_engine.h", "settings_.step_time"):
        "the time of a device's step",
    ("tests/server/worker/fake_engine.h", "settings_.infer_time"):
        "the time of a device's inference",
    ("tests/server/worker/fake_engine.h", "seconds(1)"):
        "a step that never ends, by name",
}

CPP = [
    (re.compile(r"\b(SleepFor|sleep_for|sleep_until|u?sleep|nanosleep)\("),
     "sleeps: wait for a state (WaitUntil), or LetOthersRun where nothing may happen"),
    (re.compile(r"(Timeout|wait_for|WaitUntilDone|WaitFor\w*|EndsWithin)\(.*"
                r"([Mm]illiseconds\(|[Ss]econds\(\d(\.\d+)?\))"),
     "waits less than 10 s: pass kPatience (wait_until.h)"),
    (re.compile(r"(EXPECT|ASSERT)_L[TE]\(.*Now\(\) - "),
     "compares how long something took with a bound"),
]
PYTHON = [
    (re.compile(r"\btime\.sleep\("),
     "sleeps: wait for a state (harness.wait_until)"),
    (re.compile(r"\b(timeout|seconds)=\d(\.\d+)?\b(?!\d)"),
     "waits less than 10 s"),
    (re.compile(r"assertLess(Equal)?\(.*(monotonic|time\(\)|seconds|slowest|elapsed)"),
     "compares how long something took with a bound"),
]


def check_waits(path, text):
    if path.startswith(HELPERS):
        return
    patterns = PYTHON if path.endswith(".py") else CPP
    for number, line in enumerate(text.splitlines(), 1):
        for pattern, reason in patterns:
            if pattern.search(line) and not excused(path, line):
                yield f"{path}:{number}: {reason}"


def excused(path, line):
    return any(path == file and part in line for file, part in WAITS)


def stale_rows(texts):
    for path, part in WAITS:
        if part not in texts.get(path, ""):
            yield f"{path}: WAITS names `{part}`, which is not there"
