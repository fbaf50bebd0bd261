#!/usr/bin/env bash
# Runs the benchmarks and prints one JSON line per figure:
#   {"bench","case","ours","peer","ratio","unit"}
#   tools/bench.sh BUILD_DIR [NAME]
# Each benchmark is one program or script under benchmarks/, run on its own.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$(realpath "$1")
name=${2:-}
found=0
for file in benchmarks/*.sh; do
  bench=$(basename "$file" .sh)
  [ -z "$name" ] || [ "$name" = "$bench" ] || continue
  found=1
  printf '\033[1m==>\033[0m %s\n' "$bench" >&2
  bash "$file" "$build"
done
if [ "$found" = 0 ]; then
  echo "no benchmark '$name'; there are: $(cd benchmarks && ls -- *.sh | sed 's/\.sh$//' | xargs)" >&2
  exit 2
fi
