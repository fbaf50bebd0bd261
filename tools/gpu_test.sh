#!/usr/bin/env bash
# Runs the GPU suite and prints one table of what passed.
#   tools/gpu_test.sh [--sanitize] [--cuda-lib-dir DIR] [--out DIR] [FILTER]
# Works in a checkout that was built (build/release) and in an unpacked bundle.
# --sanitize also runs every test under compute-sanitizer, where there is one.
# Ends with 0 when nothing failed; a machine without a GPU fails nothing.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tests=$root/tests
[ -d "$root/build/release/tests" ] && tests=$root/build/release/tests
sanitize=0 out='' filter='*'
while [ $# -gt 0 ]; do
  case $1 in
    --sanitize) sanitize=1 ;;
    --cuda-lib-dir) shift; export GPUPOOL_CUDA_LIB_DIR=$1 ;;
    --out) shift; out=$1 ;;
    *) filter=$1 ;;
  esac
  shift
done
[ -n "$out" ] || out=$(mktemp -d)
mkdir -p "$out"

if command -v nvidia-smi >/dev/null; then
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader
else
  echo "no nvidia-smi: probably no NVIDIA driver"
fi

# row NAME LOG STATUS
row() {
  local passed bad skipped
  passed=$(grep -c '^\[       OK \]' "$2")
  bad=$(grep -c '^\[  FAILED  \] .*ms)$' "$2")
  skipped=$(grep -c '^\[  SKIPPED \] .*ms)$' "$2")
  # A run that ended early failed, whatever it said until then.
  if [ "$3" -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
  printf '%-44s %7d %7d %7d\n' "$1" "$passed" "$bad" "$skipped"
}

table=$out/table.txt
{
  printf '%-44s %7s %7s %7s\n' suite passed failed skipped
  found=0
  for test in "$tests"/*gpu*_test; do
    [ -x "$test" ] || continue
    found=1
    name=$(basename "$test")
    "$test" --gtest_filter="$filter" >"$out/$name.log" 2>&1
    row "$name" "$out/$name.log" $?
    if [ "$sanitize" = 1 ] && command -v compute-sanitizer >/dev/null; then
      compute-sanitizer --error-exitcode 9 "$test" --gtest_filter="$filter" \
        >"$out/$name.sanitizer.log" 2>&1
      row "$name, compute-sanitizer" "$out/$name.sanitizer.log" $?
    fi
  done
} >"$table"
[ "$found" = 1 ] || echo "there are no GPU tests in $tests; build first"
cat "$table"
grep -hs '^\[  FAILED  \] .*ms)$' "$out"/*.log
echo "logs: $out"
awk 'NR > 1 && $(NF - 1) > 0 {bad = 1} END {exit bad}' "$table"
