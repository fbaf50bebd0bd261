#!/usr/bin/python3
"""Prints the share of openb's 6,212 devices that jobs get until nothing more fits,
for each placement rule, one JSON line per case.

    sim_openb.py BUILD_DIR

openb_nodes.csv.gz and openb_pods.csv.gz are looked for where sim.py looks for
traces. Jobs that want 1.3 times the devices come in the order of the seeds 42 to
51. docs/scheduling.md has the method.
"""

import concurrent.futures
import gzip
import json
import os
import pathlib
import subprocess
import sys
import tempfile

from sim import report, trace_folder

SEEDS = range(42, 52)
RATIO = 1.3
# Published for the same trace, ratio and number of seeds (Weng et al., USENIX
# ATC 2023; expected results of hkust-adsl/kubernetes-scheduler-simulator).
PUBLISHED = {"best-fit": ("BestFit", 0.931), "pack": ("FGD", 0.954)}


def fill(build, folder, rule, seed):
    done = subprocess.run(
        [build / "benchmarks/fill_pool", folder / "nodes.csv", folder / "pods.csv", rule,
         str(RATIO), str(seed), str(seed)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def unpack(folder):
    for name in ("nodes", "pods"):
        path = trace_folder() / f"openb_{name}.csv.gz"
        if not path.exists():
            print(f"sim-openb: no {path}; set GPUPOOL_TRACES to the folder that has it "
                  "(docs/scheduling.md says where it is from)", file=sys.stderr)
            return False
        (folder / f"{name}.csv").write_bytes(gzip.decompress(path.read_bytes()))
    return True


def mean(results, key):
    return sum(result[key] for result in results) / len(results)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if not unpack(folder):
            return 0
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for rule in ("spread", "best-fit", "pack"):
                results = list(pool.map(lambda seed, r=rule: fill(build, folder, r, seed), SEEDS))
                peer, share = PUBLISHED.get(rule, (None, None))
                beside = f" beside {peer}" if peer else ""
                report("sim-openb", f"{rule} allocated{beside}",
                       100 * mean(results, "allocated"), 100 * share if share else None, "%")
                report("sim-openb", f"{rule} allocated when 100 % were asked for",
                       100 * mean(results, "allocated_at_full"), None, "%")
                report("sim-openb", f"{rule} idle but fragmented",
                       100 * mean(results, "fragmented"), None, "%")
    return 0


if __name__ == "__main__":
    sys.exit(main())
