"""Which folder stands on which: the engine's floors, the rooms of large folders,
the server's side doors, how many files a folder holds, and permissions that
nobody uses.
"""
import collections
import re

import bounds

# The engine as a ladder: a folder uses itself and the floors above its row
# here, never its neighbour on the same floor.
ENGINE_FLOORS = [
    ["engine/base", "engine/tokenizer"],
    ["engine/tensor", "engine/memory", "engine/collective", "engine/data",
     "engine/metrics"],
    ["engine/graph"],
    ["engine/plan", "engine/autodiff", "engine/backends/reference"],
    ["engine/passes", "engine/runtime"],
    ["engine/backends"],
    ["engine/backends/cpu", "engine/backends/portable"],
    ["engine/backends/cuda"],
    ["engine/model"],
    ["engine/import/onnx"],
    ["engine/train", "engine/serving"],
    ["engine"],
]

# (file, lower folder that it includes nevertheless): the reason.
FLOOR_EXCEPTIONS = {
    ("engine/model/model_source.cc", "engine/import/onnx"):
        "opens a model of either kind; the interface that it returns is below",
}

# Folder -> its rooms, as a ladder of their own: a room uses the rows before its
# row here, never its neighbour. "." is the files of the folder itself.
LADDERS = {
    "engine/data": [
        ["bytes", "image", "audio", "synthetic", "tokens", "transform"], ["csv", "samples"], ["json"], ["."],
        ["prepare"]],
    "engine/model": [["spec"], ["layers"], ["."]],
    "engine/train": [["input"], ["."]],
    "engine/passes": [
        ["rewrite"], ["simplify", "fuse", "formats", "schedule"], ["raise"], ["."]],
    "engine/import/onnx": [
        ["file"], ["graph", "export", "text"], ["operators"], ["contrib", "classic"], ["."]],
    "engine/backends/cpu": [
        ["kernel"],
        ["elementwise", "movement", "reduction", "image", "product", "training"],
        ["."]],
    "engine/backends/portable": [
        ["arithmetic"], ["launch"], ["elementwise", "movement"],
        ["reduction", "image"], ["product", "training"], ["."]],
    "engine/backends/cuda": [
        ["driver"], ["survey", "streams", "kernels"], ["cublaslt", "cudnn", "nccl"],
        ["."]],
    "server/control": [
        ["records", "calls"], ["devices"], ["upkeep", "jobs"], ["models"], ["."]],
    "server/api": [
        ["validation", "rpc"], ["transfer", "watch", "inference"], ["services"],
        ["."]],
    "server/http": [["rest", "port"], ["."]],
    "server/serving": [["tensor", "regions"], ["text"], ["."], ["decoupled"]],
    "client": [["text"], ["files", "yaml"], ["."], ["cli"]],
    "client/cli": [
        ["output", "contexts"], ["command"],
        ["models", "devices", "admin", "simulation", "mlflow"],
        ["jobs"], ["."]],
}

# A folder holds at most so many files of these kinds, without its subfolders.
# bounds.FILES has those that hold more.
FILE_LIMIT = 40
COUNTED = (".h", ".cc", ".cu", ".cuh", ".py", ".md")

# Files of the server that include headers of the engine beside
# engine/session.h and engine/base: which.
SIDE_DOORS = {
    "server/worker/command/check_command.cc": ["engine/check_model.h"],
    "server/worker/command/devices_command.cc": ["engine/cuda_devices.h"],
    "server/worker/doctor/examine.cc": ["engine/backends/cuda/driver/nvml.h",
                                        "engine/runtime/device_module.h"],
    "server/worker/doctor/facts.h": ["engine/backends/cuda/survey/driver_survey.h",
                                     "engine/backends/cuda/survey/library_survey.h",
                                     "engine/backends/cuda/survey/nvml_survey.h",
                                     "engine/runtime/module_architectures.h"],
    "server/worker/doctor/judge_gpus.cc": ["engine/cuda_devices.h"],
    "server/worker/doctor/survey_json.h": ["engine/backends/cuda/survey/driver_survey.h",
                                           "engine/backends/cuda/survey/library_survey.h",
                                           "engine/backends/cuda/survey/nvml_survey.h",
                                           "engine/runtime/module_architectures.h"],
    "server/worker/engine.h": ["engine/collective/abort_switch.h",
                               "engine/served_model.h",
                               "engine/train/training.h"],
    "server/worker/command/explain_command.cc": ["engine/explain.h"],
    "server/worker/gpu_facts_text.h": ["engine/runtime/device_facts.h"],
    "server/worker/injected_fault.cc": ["engine/backends/cuda/driver/fault_class.h"],
    "server/worker/session_engine.cc": ["engine/backends/cuda/driver/fault_class.h",
                                        "engine/train/rank_group.h"],
}


def folder_of(path):
    return path.rsplit("/", 1)[0]


def home(folder):
    """The folder that a room belongs to; every other folder itself."""
    homes = [parent for parent in LADDERS if folder.startswith(parent + "/")]
    if not homes:
        return folder
    parent = max(homes, key=len)
    return parent if row_of(parent, room_of(parent, folder + "/")) is not None else folder


def room_of(parent, path):
    """The room of `parent` that a path lies in, "." for the folder itself."""
    inside = path[len(parent) + 1:]
    return inside.split("/")[0] if "/" in inside else "."


def row_of(parent, room):
    for row, rooms in enumerate(LADDERS[parent]):
        if room in rooms:
            return row
    return None


def check_rooms(path, text):
    """Includes within a folder that go up its ladder, or to a neighbour."""
    for parent in LADDERS:
        if not path.startswith(parent + "/"):
            continue
        own = room_of(parent, path)
        if row_of(parent, own) is None:
            yield f"{path}: {own} is no room of {parent} (LADDERS)"
            continue
        for include in re.findall(rf'^\s*#include\s+"({parent}/[^"]+)"', text, re.M):
            other = room_of(parent, include)
            if other == own:
                continue
            if row_of(parent, other) is None or row_of(parent, other) >= row_of(parent, own):
                yield (f"{path}: includes {include}; {own} uses only the rooms "
                       f"of {parent} before its own (LADDERS)")


def stale_rooms(texts):
    """Rooms of the ladders that hold no file."""
    for parent, rows in LADDERS.items():
        here = {room_of(parent, path) for path in texts if path.startswith(parent + "/")}
        for room in sum(rows, []):
            if room not in here:
                yield f"{parent}: LADDERS names {room}, where no file is"


def files_in_folders(names):
    """Folder -> how many files that count lie directly in it."""
    return collections.Counter(folder_of(name) for name in names
                               if name.endswith(COUNTED) and "/" in name)


def check_files(names):
    for folder, count in sorted(files_in_folders(names).items()):
        limit = bounds.FILES.get(folder, FILE_LIMIT)
        if count > limit:
            yield (f"{folder}: {count} files, at most {limit}; divide it into "
                   "folders with one idea each")


def stale_files(names):
    """Bounds of folders that hold no more files than any folder may."""
    counts = files_in_folders(names)
    for folder in bounds.FILES:
        if counts[folder] <= FILE_LIMIT:
            yield f"bounds.py: FILES names {folder}, which holds {counts[folder]} files"


def floor_of(folder):
    for floor, folders in enumerate(ENGINE_FLOORS):
        if folder in folders:
            return floor
    return None


def engine_includes(text):
    return re.findall(r'^\s*#include\s+"(engine/[^"]+)"', text, re.M)


def check_floors(path, text):
    """Yields includes of the engine that go down the ladder, or to a neighbour."""
    if not path.startswith("engine/"):
        return
    own = home(folder_of(path))
    if floor_of(own) is None:
        yield f"{path}: {own} stands on no floor of the engine (ENGINE_FLOORS)"
        return
    for include in engine_includes(text):
        other = home(folder_of(include))
        if other == own or (path, other) in FLOOR_EXCEPTIONS:
            continue
        if floor_of(other) is None or floor_of(other) >= floor_of(own):
            yield (f"{path}: includes {include}; {own} uses only the floors "
                   "before its own (ENGINE_FLOORS)")


def check_side_doors(path, text):
    if not path.startswith("server/"):
        return
    for include in engine_includes(text):
        if include.startswith("engine/base/") or include == "engine/session.h":
            continue
        if include not in SIDE_DOORS.get(path, []):
            yield (f"{path}: includes {include}, a side door past "
                   "engine/session.h that SIDE_DOORS does not name")


def stale_rows(texts):
    """Yields rows of the two tables that no include needs any more."""
    for (path, folder) in FLOOR_EXCEPTIONS:
        used = engine_includes(texts.get(path, ""))
        if not any(home(folder_of(include)) == folder for include in used):
            yield f"{path}: FLOOR_EXCEPTIONS names {folder}, which it does not include"
    for path, includes in SIDE_DOORS.items():
        for include in includes:
            if include not in engine_includes(texts.get(path, "")):
                yield f"{path}: SIDE_DOORS names {include}, which it does not include"


def unused_arrows(arrows, texts):
    """Yields arrows from folders of the server that no include uses."""
    for folder, targets in arrows.items():
        if not folder.startswith("server/"):
            continue
        included = set()
        for path, text in texts.items():
            if path.startswith(folder + "/"):
                included |= set(re.findall(r'^\s*#include\s+"([^"]+)"', text, re.M))
        for target in targets:
            if not any(goes_to(include, target) for include in included):
                yield f"{folder}: no include uses its arrow to {target}"


def goes_to(include, target):
    if target.startswith("proto:"):
        services = ".grpc.pb.h" in include
        return include.endswith(".pb.h") and services == (target == "proto:services")
    return include == target or include.startswith(target + "/")


def libraries(lists):
    """Returns name -> (folder, sources, our libraries that it links)."""
    found = {}
    for path, text in lists.items():
        text = re.sub(r"#[^\n]*", "", text)
        for name, body in re.findall(
                r"gpupool_(?:library|binary)\((\S+)([^)]*)\)", text):
            sources, links, part = [], [], None
            for word in body.split():
                if word in ("SOURCES", "DEPS", "USES"):
                    part = word
                elif part == "SOURCES":
                    sources.append(word)
                elif word.startswith("gpupool_"):
                    links.append(word)
            found[name] = (folder_of(path), sources, links)
    return found


def library_folder(include, known):
    """The folder of the library that a header belongs to: its own, or the
    nearest one above that has a library."""
    folders = {folder for folder, _, _ in known.values()}
    folder = folder_of(include)
    while folder not in folders and "/" in folder:
        folder = folder_of(folder)
    return folder


def unused_links(lists, texts):
    """Links between folders of the server that no include needs.

    `lists`: the CMakeLists.txt files by path.
    """
    known = libraries(lists)
    for name, (folder, sources, links) in known.items():
        if not folder.startswith("server"):
            continue
        stems = {source.rsplit(".", 1)[0] for source in sources}
        included = set()
        for path, text in texts.items():
            if library_folder(path, known) == folder and (
                    path[len(folder) + 1:].rsplit(".", 1)[0] in stems
                    or path.endswith(".h")):
                included |= set(re.findall(r'^\s*#include\s+"([^"]+)"', text, re.M))
        for link in links:
            if link not in known or link == name:
                continue
            other = known[link][0]
            if other != folder and not any(
                    library_folder(include, known) == other for include in included):
                yield (f"{folder}/CMakeLists.txt: {name} links {link}, but includes "
                       f"nothing of {other}")
