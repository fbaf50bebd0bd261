#!/usr/bin/python3
"""Serves, exports and trains the nets of the zoo, and writes docs/model_zoo.md.

    /usr/bin/python3 tests/zoo/zoo.py --bin build/release/bin [NAME...]

Needs Debian's python3-torch, python3-torchvision, python3-onnx and
python3-numpy. Weights and inputs are random with fixed seeds. Results are kept
in --results, so that a run that was ended goes on; --page writes the page from
all of them. Exits with 1 if a net is refused or a number is beyond its bound."""
import argparse
import datetime
import json
import os
import pathlib
import shutil
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "e2e")]
PAGE = HERE.parents[1] / "docs/model_zoo.md"
FAMILIES = {
    "torchvision": "Nets of torchvision", "transformer": "Transformers",
    "recurrent": "Recurrent nets and sequences", "image": "Images and fields",
    "detector": "Heads of detectors", "tabular": "Tables",
    "quantised": "Quantised", "fp16": "Converted to float16"}


def all_nets():
    import nets_other
    import nets_sequence
    import nets_vision
    return [*nets_sequence.NETS, *nets_other.NETS, *nets_vision.NETS]


def faults(net, row):
    """Returns what is wrong with a row: a refusal, or a number beyond its bound."""
    # Training begins with weights that the file has rounded to 16 bits.
    least = 1e-3 if net.family == "fp16" else 1e-4
    bounds = {"served": net.tolerance, "exported": 1e-5,
              "trained": max(least, 20 * row.get("own", 0))}
    found = []
    for key in ("made", "checked", "served", "exported", "trained"):
        value = row.get(key)
        if isinstance(value, str) and not value.startswith("left out"):
            found.append(f"{net.name}: {key}: {value}")
        elif isinstance(value, float) and not value <= bounds.get(key, 0):
            found.append(f"{net.name}: {key}: {value:.3g} is above {bounds[key]:g}")
    return found


def cell(value):
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes"
    if isinstance(value, float):
        return "same bits" if value == 0 else f"{value:.1e}"
    return "left out" if value.startswith("left out") else "no"


def table(rows):
    lines = ["| net | parameters | served | exported | trained | float64 |",
             "|---|---|---|---|---|---|"]
    for row in rows:
        lines.append("| " + " | ".join([
            row["name"], f"{row['parameters']:,}", cell(row.get("served")),
            cell(row.get("exported")), cell(row.get("trained")),
            cell(row.get("own"))]) + " |")
    return lines


def notes(rows):
    lines = []
    for row in rows:
        for key in ("made", "checked", "served", "exported", "trained"):
            value = row.get(key)
            # What the check says of a refusal, serving says as well.
            if key == "checked" and isinstance(row.get("served"), str):
                continue
            if isinstance(value, str):
                text = value.replace("|", "/").replace("<", "&lt;")
                lines.append(f"- {row['name']}, {key}: {text}")
    return lines


def page(nets, rows):
    import nets_vision
    import onnx
    import torch
    today = datetime.date.today().isoformat()
    lines = [
        "# Model zoo", "",
        f"{len(rows)} nets that scripts make, each exported by PyTorch, served, exported "
        "again and trained. `tests/zoo/zoo.py` wrote this page on "
        f"{today} with PyTorch {torch.__version__}, torchvision {nets_vision.VERSION} and "
        f"ONNX {onnx.__version__}, on a CPU. Weights and inputs are random, and images are "
        "small, so that a run takes minutes.", "",
        "| column | meaning |", "|---|---|",
        "| served | the largest difference between the output of the server and that of "
        "PyTorch in float32, as a share of the largest number of the output |",
        "| exported | the same between the model and its export, served again |",
        "| trained | the largest difference between the losses of all steps of a job of 20 "
        "steps and those of PyTorch, as a share of the first loss (SGD with momentum, the "
        "same 4 rows in every step) |",
        "| float64 | the same between PyTorch in float32 and PyTorch in float64: how much "
        "the steps amplify rounding |", "",
        "`no` is a refusal, whose words are below the tables. Quantised and float16 nets "
        "differ from float32 by their own rounding.", ""]
    found = [text for net in nets if net.name in rows
             for text in faults(net, rows[net.name])]
    for family, title in FAMILIES.items():
        part = [rows[n.name] for n in nets if n.family == family and n.name in rows]
        if part:
            lines += [f"## {title}", "", *table(part), ""]
    remarks = notes([rows[n.name] for n in nets if n.name in rows])
    if remarks:
        lines += ["## Refusals and nets that are left out", "", *remarks, ""]
    missing = [n.name for n in nets if n.name not in rows]
    if missing:
        lines += ["## Not measured yet", "", ", ".join(missing) + ".", ""]
    beyond = [text for text in found if " is above " in text]
    if beyond:
        lines += ["## Differences beyond the bounds", "", *(f"- {t}" for t in beyond), ""]
    PAGE.write_text("\n".join(lines).rstrip() + "\n")


def run(nets, results, devices):
    import harness
    import measure
    state = tempfile.mkdtemp(prefix="gpupool-zoo-")
    server = harness.Server(state, ("--devices", devices)).start()
    found = []
    try:
        pool = measure.Pool(server, state)
        for net in nets:
            file = results / f"{net.name}.json"
            if file.exists():
                row = json.loads(file.read_text())
            else:
                begin = time.monotonic()
                row = measure.measure(net, pool, pathlib.Path(state))
                row["seconds"] = round(time.monotonic() - begin, 1)
                file.write_text(json.dumps(row))
            print(json.dumps(row), flush=True)
            found += faults(net, row)
    finally:
        server.stop()
        shutil.rmtree(state, ignore_errors=True)
    return found


def report(found):
    """Prints the findings and returns the exit code."""
    print("\n".join(["findings:", *found] if found else ["no findings"]))
    return 1 if found else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--devices", default="cpu:1")
    parser.add_argument("--page", action="store_true", help="write the page and run nothing")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    import harness
    import torch
    torch.set_num_threads(1)
    harness.BIN = given.bin.resolve()
    nets = all_nets()
    results = given.results or pathlib.Path(tempfile.mkdtemp(prefix="gpupool-zoo-results-"))
    results.mkdir(parents=True, exist_ok=True)
    if given.page:
        page(nets, {f.stem: json.loads(f.read_text()) for f in results.glob("*.json")})
        return 0
    chosen = [n for n in nets if not given.names or n.name in given.names]
    return report(run(chosen, results, given.devices))


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.exit(main())
