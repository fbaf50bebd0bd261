#!/usr/bin/env python3
"""The house rules that a script can read: arrows, sizes, registration, calls.

    house_rules.py [--list] [ROOT]

Prints one line per finding and ends with 1 when there is any. Notes say which
bounds can be lowered. `--list` prints every place that a bound counts. The
table of arrows here is the one of ARCHITECTURE.md; change both together.
"""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import bounds  # noqa: E402
import comment_rules  # noqa: E402
import cpp_functions  # noqa: E402
import folder_rules  # noqa: E402
import unnamed_rules  # noqa: E402
import wait_rules  # noqa: E402

# Folder -> folders of ours that it may include (itself is always allowed).
# The longest matching folder name decides; "proto:messages" and
# "proto:services" are the generated headers without and with gRPC.
ARROWS = {
    "audit": [],
    "tls": [],
    "engine/base": [],
    "engine": ["engine", "proto:messages"],
    "engine/tokenizer": [],
    "scheduler": [],
    "scheduler/state": [],
    "scheduler/text": ["scheduler/state"],
    "scheduler/place": ["scheduler/state"],
    "scheduler/order": ["scheduler/state", "scheduler/place"],
    "scheduler/yield": ["scheduler/state", "scheduler/place", "scheduler/order"],
    "scheduler/step": ["scheduler/state", "scheduler/place", "scheduler/order", "scheduler/yield"],
    "scheduler/explain": ["scheduler/state", "scheduler/place", "scheduler/order", "scheduler/yield", "scheduler/step"],
    "scheduler/simulator": ["scheduler/state", "scheduler/place", "scheduler/order", "scheduler/yield", "scheduler/step"],
    "scheduler/serve": [],
    "server/ipc": ["engine/base"],
    "server/pool": ["server/ipc", "engine/base", "proto:messages"],
    "server/store": ["engine/base", "proto:messages"],
    "server/metrics": ["engine/base", "proto:messages"],
    "server/trace": ["engine/base", "proto:messages"],
    "server/auth": ["audit", "engine/base", "proto:messages"],
    "server/control": ["scheduler", "server/pool", "server/store", "server/metrics",
                       "server/trace", "engine/base", "proto:messages"],
    "server/serving": ["scheduler", "server/ipc", "server/control/serving_sink.h",
                       "engine/base", "proto:messages"],
    "server/api": ["audit", "server/auth", "server/control", "server/serving", "server/store",
                   "server/trace", "tls", "engine/base", "proto:messages", "proto:services"],
    "server/repository": ["server/control", "server/store", "server/api/validation",
                          "server/api/inference/model_repository.h",
                          "server/serving/tensor/data_type.h",
                          "server/serving/ensemble_spec.h",
                          "server/serving/ensemble_graph.h",
                          "server/serving/ensembles.h",
                          "server/serving/decoupled/repeat_models.h",
                          "server/serving/decoupled/repeat_responses.h",
                          "server/ipc/unique_fd.h",
                          "engine/base", "proto:messages"],
    "server/http": ["server/auth", "tls", "engine/base", "proto:messages",
                    "proto:services"],
    "server/log": [],
    "server/worker": ["engine", "server/ipc", "server/log", "proto:messages"],
    "server/worker/command": ["engine", "server/ipc", "server/serving",
                              "server/worker", "proto:messages"],
    "server": ["server", "scheduler", "audit", "tls", "engine/base", "proto:messages",
               "proto:services"],
    "client": ["scheduler/simulator", "audit", "tls", "proto:messages", "proto:services"],
}

# Folder -> (pattern of a system include, who may use it instead).
ONLY_IN = [
    (re.compile(r"<grpc|\.grpc\.pb\.h|grpcpp/"), "gRPC",
     ["server/api", "server/http", "server/server.", "server/main.cc", "client"]),
    (re.compile(r"<cuda|<cudnn|<cublas|<nccl|<nvml"), "CUDA", ["engine/backends/cuda"]),
    (re.compile(r"dnnl|oneapi/"), "oneDNN", ["engine/backends/cpu"]),
    (re.compile(r'[<"]hwy/'), "Highway", ["engine/backends/cpu"]),
    (re.compile(r"[<\"]gloo/"), "Gloo", ["engine/collective"]),
    (re.compile(r"[<\"]onnx/"), "libonnx", ["engine/import/onnx"]),
    (re.compile(r"<(jpeglib|jerror|png)\.h>"), "libjpeg and libpng",
     ["engine/data/image"]),
    (re.compile(r"<sentencepiece_"), "SentencePiece", ["engine/tokenizer"]),
    (re.compile(r"<sndfile\.h>"), "libsndfile", ["engine/data/audio"]),
    (re.compile(r"<seccomp\.h>"), "libseccomp", ["server/worker/sandbox"]),
    (re.compile(r"SQLiteCpp|sqlite3\.h"), "SQLite", ["server/store"]),
    (re.compile(r"prometheus/"), "prometheus-cpp", ["server/metrics"]),
    (re.compile(r"httplib\.h"), "cpp-httplib", ["server/trace", "client/cli/mlflow"]),
    (re.compile(r"[<\"]boost/"), "Boost", ["server/http/port"]),
    (re.compile(r"CLI/"), "CLI11",
     ["client/cli", "server/main.cc", "server/config", "server/worker/command",
      "server/worker/worker_main.cc"]),
]

# The scheduler is pure: no files, threads, clocks or random devices.
SCHEDULER_BANNED = re.compile(
    r"#include\s+<(fstream|thread|mutex|random|chrono|filesystem|sys/|unistd|spdlog)"
    r"|absl::Now\(|std::cout|printf\(")

BANNED_CALLS = [
    (re.compile(r"(?<![\w:])system\("), "system(): never a shell"),
    (re.compile(r"(?<![\w_])(strcpy|strcat|sprintf|gets)\("), "unbounded C string call"),
    (re.compile(r"(?<![\w_])alloca\("), "alloca: the size may come from outside"),
    (re.compile(r"(?<![\w_])(rand|srand)\("), "rand: use the seeded Philox generator"),
    (re.compile(r"std::random_device"), "random_device: seeds are given"),
    (re.compile(r"using namespace std\b"), "using namespace std"),
]
# Open tasks in code or in a comment.
NOTE_TO_ONESELF = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
# Files that may use what is banned elsewhere, with the reason.
CALL_EXCEPTIONS = {
    "random_device": ["client/", "server/"],  # ids and boot ids, not behaviour
}

LIMITS = {".h": 300, ".cuh": 300, ".cc": 600, ".cu": 600}
TEST_LIMIT = 800
FUNCTION_LIMIT = 70
PARAMETER_LIMIT = 4
TOP = ("audit", "tls", "engine", "scheduler", "server", "client")


def owner(path):
    matches = [folder for folder in ARROWS
               if path == folder or path.startswith(folder + "/")]
    return max(matches, key=len) if matches else None


def allowed(path, include):
    folder = owner(path)
    if include.endswith(".pb.h"):
        kind = "proto:services" if ".grpc.pb.h" in include else "proto:messages"
        return kind in ARROWS[folder]
    if folder != "server" and (include.startswith(folder + "/")):
        return True
    return any(include == target or include.startswith(target.rstrip("/") + "/")
               for target in ARROWS[folder])


def includes(text):
    return re.findall(r'^\s*#include\s+([<"][^>"]+[>"])', text, re.M)


def check_includes(path, text):
    for raw in includes(text):
        name = raw[1:-1]
        for pattern, label, folders in ONLY_IN:
            if pattern.search(raw) and not path.startswith(tuple(folders)):
                yield f"{path}: includes {raw}; {label} belongs in {', '.join(folders)}"
        ours = name.startswith(tuple(t + "/" for t in TOP)) or name.endswith(".pb.h")
        if raw[0] == '"' and ours and not allowed(path, name):
            yield f"{path}: includes {name}; {owner(path)} may not (see the arrows)"


def check_size(path, text):
    lines = text.count("\n")
    limit = TEST_LIMIT if path.startswith("tests/") else LIMITS[path[path.rfind("."):]]
    if lines > limit:
        yield f"{path}: {lines} lines, at most {limit}"


def check_calls(path, text):
    for number, line in enumerate(text.splitlines(), 1):
        if NOTE_TO_ONESELF.search(line):
            yield f"{path}:{number}: a note to oneself"
        code = line.split("//")[0]
        for pattern, reason in BANNED_CALLS:
            if pattern.search(code):
                excused = CALL_EXCEPTIONS.get(reason.split(":")[0], [])
                if not path.startswith(tuple(excused) or ("\0",)):
                    yield f"{path}:{number}: {reason}"
    if path.startswith("scheduler/") and not path.startswith("scheduler/simulator/"):
        found = SCHEDULER_BANNED.search(text)
        if found:
            yield f"{path}: the scheduler is pure, but: {found.group(0).strip()}"


def check_functions(path, text):
    """Lengths of functions, also inside classes.

    Lines that only name a case do not count: a table stays a table.
    """
    for function in cpp_functions.functions(text):
        if function.lines > FUNCTION_LIMIT:
            yield (f"{path}:{function.line}: a function of {function.lines} lines, "
                   f"at most {FUNCTION_LIMIT}")


def wide_functions(path, text):
    for function in cpp_functions.functions(text):
        if function.parameters > PARAMETER_LIMIT:
            yield (f"{path}:{function.line}: {function.name} takes "
                   f"{function.parameters} parameters")


def check_header(path, text):
    # Highway includes a -inl.h once per target.
    if "#pragma once" not in text and not path.endswith(("-inl.h", "-inl.cuh")):
        yield f"{path}: no #pragma once"
    if not text.lstrip().startswith("//"):
        yield f"{path}: a header opens with what it is for"


def check_registered(root, files):
    """Checks that a CMakeLists.txt of its folder or above names every source."""
    for path in files:
        if not path.endswith((".cc", ".cu")):
            continue
        folder = (root / path).parent
        name = None
        while folder != root.parent:
            lists = folder / "CMakeLists.txt"
            name = str((root / path).relative_to(folder))
            if lists.exists() and re.search(rf"(^|[\s(]|SOURCE_DIR\}}/){re.escape(name)}($|[\s)])",
                                            lists.read_text()):
                break
            folder = folder.parent
        else:
            yield f"{path}: no CMakeLists.txt names it"


def names(root, *patterns):
    """Returns the paths of the files that git knows and of new ones."""
    out = subprocess.run(["git", "ls-files", "--cached", "--others",
                          "--exclude-standard", *patterns],
                         cwd=root, capture_output=True, text=True, check=True).stdout
    return [name for name in out.splitlines() if (root / name).exists()]


def tree(root, *patterns):
    """Path -> text of the files that git knows and of new ones."""
    return {name: (root / name).read_text(errors="replace")
            for name in names(root, *patterns)}


def sources(root):
    return tree(root, "*.h", "*.cc", "*.cu", "*.cuh")


def findings(root):
    """Yields what is wrong in single files, and the counts that are too high."""
    texts = sources(root)
    for path, text in texts.items():
        if owner(path):
            yield from check_includes(path, text)
            yield from folder_rules.check_floors(path, text)
            yield from folder_rules.check_rooms(path, text)
            yield from folder_rules.check_side_doors(path, text)
        if path.startswith(TOP + ("tests", "benchmarks")):
            yield from check_size(path, text)
            yield from check_calls(path, text)
            yield from check_functions(path, text)
        if path.endswith((".h", ".cuh")):
            yield from check_header(path, text)
    yield from check_registered(root, texts)
    yield from unnamed_rules.check_names(texts)
    yield from folder_rules.check_files(names(root))
    for label, table, places in counted(root):
        yield from bounds.above(label, places, table)
    waiting = tree(root, "tests/*.h", "tests/*.cc", "tests/*.py")
    for path, text in waiting.items():
        yield from wait_rules.check_waits(path, text)


def stale(root):
    """Yields rows of the tables, and links, that nothing in the tree needs."""
    texts = sources(root)
    yield from folder_rules.stale_rows(texts)
    yield from folder_rules.stale_rooms(texts)
    yield from folder_rules.stale_files(names(root))
    yield from folder_rules.unused_arrows(ARROWS, texts)
    yield from folder_rules.unused_links(tree(root, "*CMakeLists.txt"), texts)
    yield from wait_rules.stale_rows(tree(root, "tests/*"))


def counted(root):
    """Returns (label, table of bounds, places) of everything with a bound."""
    texts = sources(root)
    for label, table, rule in (
            ("functions with more than four parameters", bounds.PARAMETERS,
             wide_functions),
            ("comments that open as a fragment", bounds.FRAGMENTS,
             comment_rules.fragments)):
        yield label, table, [place for path, text in texts.items()
                             for place in rule(path, text)]


def notes(root):
    for (_, table, places), name in zip(counted(root), ("PARAMETERS", "FRAGMENTS")):
        yield from bounds.below(name, places, table)


def main():
    arguments = [a for a in sys.argv[1:] if a != "--list"]
    default = pathlib.Path(__file__).resolve().parent.parent.parent
    root = pathlib.Path(arguments[0]).resolve() if arguments else default
    if "--list" in sys.argv:
        for label, _, places in counted(root):
            print(f"{label}: {len(places)}", *places, sep="\n")
    found = [*findings(root), *stale(root)]
    for line in [*found, *notes(root)]:
        print(line)
    print(f"house rules: {len(found)} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
