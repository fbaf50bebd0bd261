#!/usr/bin/env bash
# Runs the GPU suite and prints one table of what passed.
#   tools/gpu_test.sh [--sanitize] [--bench] [--cuda-lib-dir DIRS] [--out DIR]
#                     [FILTER]
# Works in a checkout that was built (build/release) and in an unpacked bundle.
# --sanitize also runs the suite under compute-sanitizer, where there is one;
# --bench measures our speed beside PyTorch's, where that is there too.
# DIRS are separated by colons; without them NVIDIA's libraries are looked for
# in the usual places, PyTorch's packages among them.
# Leaves in --out: a log for each run, table.txt, result.json.
# Ends with 0 when nothing failed; a machine without a GPU fails nothing.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tests=$root/tests
benchmarks=$root/benchmarks
if [ -d "$root/build/release/tests" ]; then
  tests=$root/build/release/tests
fi
sanitize=0 bench=0 out='' filter='*'
while [ $# -gt 0 ]; do
  case $1 in
    --sanitize) sanitize=1 ;;
    --bench) bench=1 ;;
    --cuda-lib-dir) shift; export GPUPOOL_CUDA_LIB_DIR=$1 ;;
    --out) shift; out=$1 ;;
    *) filter=$1 ;;
  esac
  shift
done
[ -n "$out" ] || out=$(mktemp -d)
mkdir -p "$out"

# Folders that hold one of NVIDIA's libraries, separated by colons.
find_libraries() {
  local packages folder
  packages=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
    2>/dev/null)
  for folder in /usr/local/cuda/lib64 /usr/local/cuda/extras/CUPTI/lib64 \
    /usr/lib/x86_64-linux-gnu "$packages"/nvidia/*/lib; do
    if compgen -G "$folder/libcublasLt.so.*" >/dev/null ||
      compgen -G "$folder/libcudnn.so.*" >/dev/null ||
      compgen -G "$folder/libnccl.so.*" >/dev/null ||
      compgen -G "$folder/libnvrtc.so.*" >/dev/null ||
      compgen -G "$folder/libcupti.so.*" >/dev/null; then
      printf '%s:' "$folder"
    fi
  done
}
if [ -z "${GPUPOOL_CUDA_LIB_DIR:-}" ]; then
  GPUPOOL_CUDA_LIB_DIR=$(find_libraries)
  export GPUPOOL_CUDA_LIB_DIR=${GPUPOOL_CUDA_LIB_DIR%:}
fi
echo "libraries: ${GPUPOOL_CUDA_LIB_DIR:-where the system keeps them}"

gpu='no GPU'
if command -v nvidia-smi >/dev/null; then
  gpu=$(nvidia-smi --query-gpu=name,driver_version,memory.total \
    --format=csv,noheader | head -1)
fi
echo "GPU: $gpu"

# run NAME COMMAND...: a log, a row of the table, an entry of the result.
entries=''
run() {
  local name=$1 log=$out/$1.log passed bad skipped status
  shift
  timeout 1500 "$@" >"$log" 2>&1
  status=$?
  passed=$(grep -c '^\[       OK \]' "$log")
  bad=$(grep -c '^\[  FAILED  \] .*ms)$' "$log")
  skipped=$(grep -c '^\[  SKIPPED \] .*ms)$' "$log")
  # A run that ended early failed, whatever it said until then.
  if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then bad=1; fi
  printf '%-44s %7d %7d %7d\n' "$name" "$passed" "$bad" "$skipped" |
    tee -a "$out/table.txt"
  entries+="${entries:+,}
    {\"suite\": \"$name\", \"passed\": $passed, \"failed\": $bad,"
  entries+=" \"skipped\": $skipped, \"exit_status\": $status}"
}

printf '%-44s %7s %7s %7s\n' suite passed failed skipped | tee "$out/table.txt"
found=0
for test in "$tests"/*gpu*_test; do
  [ -x "$test" ] || continue
  found=1
  name=$(basename "$test")
  run "$name" "$test" --gtest_filter="$filter"
  # Faults are what the sanitizer is there to find.
  case $name in *fault*) continue ;; esac
  if [ "$sanitize" = 1 ] && command -v compute-sanitizer >/dev/null; then
    run "$name.memcheck" compute-sanitizer --tool memcheck \
      --error-exitcode 9 "$test" --gtest_filter="$filter"
  fi
done
[ "$found" = 1 ] || echo "there are no GPU tests in $tests; build first"
if [ "$bench" = 1 ] && [ -f "$benchmarks/gpu_speed.sh" ]; then
  bash "$benchmarks/gpu_speed.sh" "$(dirname "$tests")" |
    tee "$out/speed.jsonl"
fi
printf '{"gpu": "%s",\n  "date": "%s",\n  "suites": [%s\n  ]}\n' "$gpu" \
  "$(date -u +%Y-%m-%d)" "$entries" >"$out/result.json"
grep -hs '^\[  FAILED  \] .*ms)$' "$out"/*.log
echo "logs: $out"
awk 'NR > 1 && $(NF - 1) > 0 {bad = 1} END {exit bad}' "$out/table.txt"
