#!/usr/bin/env bash
# The main job, end to end, on real input. Progress goes to stderr; the last
# line on stdout is one JSON object.
#   tools/demo.sh BIN_DIR
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
bin=$(realpath "$1")
python=/usr/bin/python3
say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }

state=$(mktemp -d)
daemon=
finish() {
  if [ -n "$daemon" ] && kill -0 "$daemon" 2>/dev/null; then
    kill -TERM "$daemon" && wait "$daemon" || true
  fi
  rm -rf "$state"
}
trap finish EXIT

field() { "$python" -c 'import json,sys
value = json.load(sys.stdin)
for key in sys.argv[1].split("."): value = value[key]
print(value)' "$1"; }

say "starting gpupoold (state in $state)"
"$bin/gpupoold" --devices auto --state-dir "$state" --grpc-port 0 \
  --http-port 0 --metrics-port 0 --port-file "$state/ports.json" \
  2>"$state/gpupoold.log" &
daemon=$!
for _ in $(seq 100); do
  [ -s "$state/ports.json" ] && break
  kill -0 "$daemon" 2>/dev/null || { cat "$state/gpupoold.log" >&2; exit 1; }
  sleep 0.1
done
export GPUPOOL_ADDRESS="127.0.0.1:$(field grpc_port <"$state/ports.json")"
metrics="http://127.0.0.1:$(field metrics_port <"$state/ports.json")/metrics"
"$bin/gpupool" devices >&2
devices=$("$bin/gpupool" devices -o json)

say "training: gpupool run examples/digits.yaml"
"$bin/gpupool" run examples/digits.yaml --data examples/data/digits.csv.gz >&2
job=$("$bin/gpupool" jobs -o json)
train_seconds=$("$python" -c 'import json, sys, datetime
job = json.load(sys.stdin)["jobs"][0]
parse = lambda t: datetime.datetime.fromisoformat(t[:26].rstrip("Z"))
print(round((parse(job["end_time"]) - parse(job["start_time"])).total_seconds(), 2))' <<<"$job")

say "serving: gpupool models load digits --wait"
"$bin/gpupool" models load digits --wait >&2

say "classifying the held-out images over the open inference protocol"
result=$("$bin/gpupool" models infer digits \
  --data examples/data/digits.csv.gz --held-out-of examples/digits.yaml -o json)

say "scraping $metrics"
"$python" - "$metrics" >&2 <<'PY'
import sys, urllib.request
text = urllib.request.urlopen(sys.argv[1], timeout=5).read().decode()
wanted = ("gpupool_jobs{", "gpupool_device_memory_bytes{",
          "gpupool_inference_requests_total{")
for line in text.splitlines():
    if line.startswith(wanted):
        print("   ", line)
PY

say "stopping"
kill -TERM "$daemon"
wait "$daemon"
daemon=

"$python" -c 'import json, sys
result = json.loads(sys.argv[1])
print(json.dumps({"demo": "digits", "test_accuracy": round(result["accuracy"], 4),
  "train_seconds": float(sys.argv[2]), "infer_p50_ms": round(result["p50_ms"], 3),
  "model": "digits", "version": "1",
  "devices": [device["name"] for device in json.loads(sys.argv[3])["devices"]],
  "trained_on": json.loads(sys.argv[4])["jobs"][0]["device"]}))' \
  "$result" "$train_seconds" "$devices" "$job"
