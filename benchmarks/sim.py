#!/usr/bin/python3
"""Mean job completion times of public traces under our policies, one JSON line
per case.

    sim.py BUILD_DIR philly|muri

The traces are CSV.gz files in the folder that GPUPOOL_TRACES names, or in
../shared/data/traces; where they are not, this says so and measures nothing.
Restarts cost 60 s; nothing else is set. docs/scheduling.md has the method.
"""

import json
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent

# Mean JCT in seconds on 8 x 8 GPUs, published with Muri (Zhao et al., SIGCOMM
# 2022; github.com/Rivendile/Muri, simulator/draw_fig9-10.py). Tiresias-L knows
# no run times, SRSF does.
PUBLISHED = {
    ("muri_trace1", "las"): ("Tiresias-L", 3330371),
    ("muri_trace1", "srs"): ("SRSF", 980141),
    ("muri_trace3", "las"): ("Tiresias-L", 347213),
    ("muri_trace3", "srs"): ("SRSF", 185022),
}
# bench -> [(trace, nodes)]
TRACES = {"philly": [("philly_82k", 52)],
          "muri": [("muri_trace1", 8), ("muri_trace3", 8)]}


def trace_folder():
    named = os.environ.get("GPUPOOL_TRACES")
    return pathlib.Path(named) if named else HERE.parent.parent / "shared/data/traces"


def replay(build, trace, nodes):
    """Returns the results by policy."""
    done = subprocess.run(
        [build / "bin/gpupool", "sim", "--trace", trace, "--nodes", str(nodes),
         "--devices-per-node", "8", "--policy", "las,srs", "--restart-cost", "60s",
         "-o", "json"], capture_output=True, text=True)
    if done.returncode != 0:
        print(f"gpupool sim failed: {done.stderr.strip()[-400:]}", file=sys.stderr)
        return None
    return {result["policy"]: result for result in json.loads(done.stdout)}


def report(bench, case, ours, peer, unit):
    print(json.dumps({"bench": bench, "case": case, "ours": round(ours, 1),
                      "peer": peer, "ratio": round(ours / peer, 3) if peer else None,
                      "unit": unit}), flush=True)


def compare(bench, trace, results):
    for policy, result in results.items():
        name, peer = PUBLISHED.get((trace, policy), (None, None))
        if peer is None and policy == "las":
            # Nothing is published for this trace, so las is compared with srs.
            name, peer = "srs", round(results["srs"]["mean_jct_s"], 1)
        beside = f" beside {name}" if name else ""
        report(bench, f"{trace} {policy} mean JCT{beside}", result["mean_jct_s"], peer, "s")
        report(bench, f"{trace} {policy} p99 JCT", result["p99_jct_s"], None, "s")
        report(bench, f"{trace} {policy} replay", result["seconds"], None, "s")


def main():
    build, name = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    fine = True
    for trace, nodes in TRACES[name]:
        path = trace_folder() / f"{trace}.csv.gz"
        if not path.exists():
            print(f"sim-{name}: no {path}; set GPUPOOL_TRACES to the folder that has it "
                  "(docs/scheduling.md says where it is from)", file=sys.stderr)
            continue
        results = replay(build, path, nodes)
        if results:
            compare(f"sim-{name}", trace, results)
        fine = fine and results is not None
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
