#!/usr/bin/env bash
# Runs the GPU suite and prints one table of what passed.
#   tools/gpu_test.sh [--sanitize] [--bench] [--no-suite] [--limit SECONDS]
#                     [--cuda-lib-dir DIRS] [--out DIR] [FILTER]
# Works in a checkout that was built (build/release) and in an unpacked bundle.
# --bench also compares our speed with bare copies and, if it is installed, with
# PyTorch. --sanitize also runs the suite under compute-sanitizer, if it is
# installed. --limit is the time limit of the whole run (1500 s); parts without
# time are reported. --no-suite leaves the plain run out, for machines that are
# available for a shorter time.
# DIRS are separated by colons. By default NVIDIA's libraries are looked for in
# the usual places, including PyTorch's packages.
# Each suite has its own process. If a test ends it, the next tests run in a new
# one. Writes to --out: a log for each suite, table.txt, failures.txt with the
# last lines of each failed test, speed.jsonl, result.json.
# Ends with 0 when nothing failed. On a machine without a GPU nothing fails.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tests=$root/tests
benchmarks=$root/benchmarks
if [ -d "$root/build/release/tests" ]; then
  tests=$root/build/release/tests
fi
sanitize=0 bench=0 suite=1 limit=1500 out='' filter='*'
while [ $# -gt 0 ]; do
  case $1 in
    --sanitize) sanitize=1 ;;
    --bench) bench=1 ;;
    --no-suite) suite=0 ;;
    --limit) shift; limit=$1 ;;
    --cuda-lib-dir) shift; export GPUPOOL_CUDA_LIB_DIR=$1 ;;
    --out) shift; out=$1 ;;
    *) filter=$1 ;;
  esac
  shift
done
[ -n "$out" ] || out=$(mktemp -d)
mkdir -p "$out"
SECONDS=0

# Of one gtest suite, plain and under the sanitizer, and of all measurements.
suite_seconds=240 sanitized_seconds=420 bench_seconds=900
# Lines of a failing test's output that are kept, from its end.
tail_lines=40

# Prints the folders that hold one of NVIDIA's libraries, separated by colons.
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
echo "GPU: ${gpu:-no GPU}"
printf '%-44s %7s %7s %7s %7s %5s\n' suite passed failed skipped 'not run' s |
  tee "$out/table.txt"
: >"$out/failures.txt"

# Prints the smaller of a number of seconds and of the seconds that are left.
at_most() {
  local left=$((limit - SECONDS))
  [ "$left" -gt 0 ] || left=0
  echo $(($1 < left ? $1 : left))
}

# Escapes a text for the inside of a JSON string.
escape() {
  sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/\t/\\t/g' | tr -d '\000-\010\013-\037' |
    awk '{printf "%s%s", (NR > 1 ? "\\n" : ""), $0}'
}

# These print names in a log, one per line: the tests that began; the test that
# began and never ended; the tests that failed.
began() { awk '/^\[ RUN      \] / {print $4}' "$1"; }
unfinished() {
  awk '/^\[ RUN      \] / {name = $4}
       /^\[ +(OK|FAILED|SKIPPED) +\] .*ms\)$/ {name = ""}
       END {if (name != "") print name}' "$1"
}
failed() {
  awk '/^\[  FAILED  \] .*ms\)$/ {sub(/,$/, "", $4); print $4}' "$1"
}

# The last lines of a test's output in a log.
output_of() {
  awk -v test="$2" '/^\[ RUN      \] / {on = ($4 == test)} on {print}
    on && /^\[ +(OK|FAILED|SKIPPED) +\] .*ms\)$/ {on = 0}' "$1" |
    tail -n "$tail_lines"
}

# note ROW PASSED FAILED SKIPPED NOT_RUN SECONDS STATUS: into table and result.
entries='' failures=''
note() {
  printf '%-44s %7d %7d %7d %7d %5d\n' "${@:1:6}" | tee -a "$out/table.txt"
  entries+="${entries:+,}
    {\"suite\": \"$1\", \"passed\": $2, \"failed\": $3, \"skipped\": $4,"
  entries+=" \"not_run\": $5, \"seconds\": $6, \"exit_status\": $7}"
}

# keep NAME TEXT: keeps the output of a failed test.
keep() {
  printf -- '--- %s\n%s\n' "$1" "$2" >>"$out/failures.txt"
  failures+="${failures:+,}
    {\"test\": \"$1\", \"output\": \"$(escape <<<"$2")\"}"
}

# run_suite ROW SECONDS TESTS COMMAND...: TESTS are names, one a line.
run_suite() {
  local row=$1 seconds left=$3 status=0 start=$SECONDS end test
  local log=$out/${row//[^A-Za-z0-9_.]/_}.log
  seconds=$(at_most "$2")
  end=$((SECONDS + seconds))
  shift 3
  : >"$log"
  while [ -n "$left" ] && [ "$SECONDS" -lt "$end" ]; do
    timeout -k 10 $((end - SECONDS)) "$@" \
      --gtest_filter="$(paste -sd: <<<"$left")" >"$log.part" 2>&1
    status=$?
    test=$(unfinished "$log.part")
    if [ -n "$test" ]; then
      echo "[  FAILED  ] $test (ended its process with status $status, 0 ms)" \
        >>"$log.part"
    fi
    cat "$log.part" >>"$log"
    # Nothing began: the binary itself does not run.
    [ -n "$(began "$log.part")" ] || break
    left=$(grep -vxF -f <(began "$log.part") <<<"$left")
  done
  local bad not_run=0
  bad=$(failed "$log" | grep -c .)
  [ -z "$left" ] || not_run=$(grep -c . <<<"$left")
  while read -r test; do
    [ -z "$test" ] || keep "$row $test" "$(output_of "$log" "$test")"
  done <<<"$(failed "$log")"
  # A run that ended badly failed, whatever its tests say.
  if [ "$status" -ne 0 ] && [ "$bad" -eq 0 ]; then
    bad=1
    keep "$row" "$(tail -n "$tail_lines" "$log")"
  fi
  rm -f "$log.part"
  note "$row" "$(grep -c '^\[       OK \]' "$log")" "$bad" \
    "$(grep -c '^\[  SKIPPED \] .*ms)$' "$log")" "$not_run" \
    $((SECONDS - start)) "$status"
}

# run_tests SUFFIX SECONDS [PREFIX...]: every suite of every binary.
run_tests() {
  local suffix=$1 seconds=$2 found=0 binary name list one
  shift 2
  for binary in "$tests"/*gpu*_test; do
    [ -x "$binary" ] || continue
    found=1
    name=$(basename "$binary")
    # Faults are what the sanitizer is there to find.
    case $name$suffix in *fault*.memcheck) continue ;; esac
    list=$("$binary" --gtest_filter="$filter" --gtest_list_tests 2>&1) || {
      keep "$name" "$list"
      note "$name$suffix" 0 1 0 0 0 1
      continue
    }
    list=$(awk '/^[^ ].*\./ {suite = $1} /^  / {print suite $1}' <<<"$list")
    for one in $(sed 's/\.[^.]*$//' <<<"$list" | uniq); do
      run_suite "$name $one$suffix" "$seconds" \
        "$(grep -F "$one." <<<"$list" | grep "^$one\.")" "$@" "$binary"
    done
  done
  [ "$found" = 1 ] || echo "there are no GPU tests in $tests; build first"
}

if [ "$suite" = 1 ]; then
  echo "# the suite: at most $(at_most "$limit") s, $suite_seconds s each"
  run_tests '' "$suite_seconds"
fi
if [ "$bench" = 1 ]; then
  seconds=$(at_most "$bench_seconds")
  if [ "${gpu:-no GPU}" = 'no GPU' ]; then
    echo '# speed: skipped, there is no GPU'
  elif [ "$seconds" = 0 ] || [ ! -f "$benchmarks/gpu_speed.sh" ]; then
    echo '# speed: not run, no time is left or gpu_speed is not there'
  else
    echo "# speed: at most $seconds s"
    bash "$benchmarks/gpu_speed.sh" "$(dirname "$tests")" "$seconds" |
      tee "$out/speed.jsonl"
  fi
fi
if [ "$sanitize" = 1 ]; then
  if [ "${gpu:-no GPU}" = 'no GPU' ]; then
    echo '# sanitizer: skipped, there is no GPU'
  elif ! command -v compute-sanitizer >/dev/null; then
    echo '# sanitizer: skipped, there is no compute-sanitizer'
  else
    echo "# sanitizer: at most $(at_most "$limit") s, $sanitized_seconds s each"
    run_tests .memcheck "$sanitized_seconds" compute-sanitizer \
      --tool memcheck --error-exitcode 9
  fi
fi

printf '{"gpu": "%s",\n  "date": "%s",\n  "seconds": %d,\n' "${gpu:-no GPU}" \
  "$(date -u +%Y-%m-%d)" "$SECONDS" >"$out/result.json"
printf '  "suites": [%s\n  ],\n  "failures": [%s\n  ]}\n' "$entries" \
  "$failures" >>"$out/result.json"
cat "$out/failures.txt"
echo "logs: $out ($SECONDS s)"
[ -z "$failures" ]
