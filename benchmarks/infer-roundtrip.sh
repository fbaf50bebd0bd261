# ModelInfer at concurrency 1, 8 and 64 beside a bare gRPC echo of the same
# bytes in the same run.
#   infer-roundtrip.sh BUILD_DIR
set -euo pipefail
build=$1
state=$(mktemp -d)
trap 'kill -TERM $daemon 2>/dev/null; wait $daemon 2>/dev/null; rm -rf "$state"' EXIT
"$build/bin/gpupoold" --devices cpu:1 --state-dir "$state" --grpc-port 0 \
  --http-port 0 --metrics-port 0 --port-file "$state/ports.json" \
  2>"$state/log" &
daemon=$!
for _ in $(seq 100); do [ -s "$state/ports.json" ] && break; sleep 0.1; done
port=$(sed -n 's/.*"grpc_port": *\([0-9]*\).*/\1/p' "$state/ports.json")
export GPUPOOL_ADDRESS=127.0.0.1:$port
"$build/bin/gpupool" run examples/digits.yaml --data examples/data/digits.csv.gz >&2
"$build/bin/gpupool" models load digits --wait >&2
"$build/benchmarks/infer_roundtrip" --address "$GPUPOOL_ADDRESS" --model digits
