# Running the tests of build/release.

# Tests of whole processes, where a busy machine shows.
process_labels='^(e2e|fault)$'

# run_ctest LOG ARGUMENTS...: adds to LOG what it prints.
run_ctest() {
  local log=$1
  shift
  (cd build/release &&
    GPUPOOL_INSIDE_TEST=1 ctest --output-on-failure --no-tests=ignore \
      -j "$(nproc)" "$@" 2>&1) | tee -a "$log"
}

# must_have_run LOG: a regex that fits no test is a mistake.
must_have_run() {
  grep -q '^ *[0-9]*/[0-9]* Test ' "$1" || die "no test has such a name"
}

# run_tests [REGEX]: every test once; those of whole processes a second time when
# they fail, which is then said, since it is a defect of the test or of the code.
run_tests() {
  local log=build/release/tests.log select=() failed=0
  [ $# -gt 0 ] && select=(-R "$1")
  : >"$log"
  run_ctest "$log" -LE "$process_labels" "${select[@]}" || failed=1
  run_ctest "$log" -L "$process_labels" --repeat until-pass:2 "${select[@]}" ||
    failed=1
  must_have_run "$log"
  "$python" tools/test_report.py failed "$log"
  "$python" tools/test_report.py flaky "$log"
  return "$failed"
}

# stop_loops: ends the busy loops that run_stress began.
stop_loops() {
  [ ${#loops[@]} -eq 0 ] || kill "${loops[@]}" 2>/dev/null || true
  loops=()
}

# run_stress [REGEX]: every test three times in a row, each time on a machine
# that is busy with four other things, and none tried again.
run_stress() {
  local round log failed=0 select=()
  [ $# -gt 0 ] && select=(-R "$1")
  mkdir -p build/release/stress
  loops=()
  trap stop_loops EXIT
  for _ in 1 2 3 4; do
    (exec -a gpupool-busy-loop bash -c 'while :; do :; done') &
    loops+=($!)
  done
  for round in 1 2 3; do
    log=build/release/stress/round-$round.log
    : >"$log"
    say "round $round of 3, beside four busy loops: $log"
    run_ctest "$log" "${select[@]}" || failed=1
    must_have_run "$log"
  done
  stop_loops
  trap - EXIT
  "$python" tools/test_report.py failed build/release/stress/round-[123].log
  [ "$failed" -ne 0 ] || say "no test failed in three rounds"
  return "$failed"
}

# run_sanitized PRESET KIND: the tests that build/PRESET/KIND_tests.txt names,
# each binary as one process. A report of a sanitizer is a failure.
run_sanitized() {
  local name log start failed=0 folder=build/$1
  mkdir -p "$folder/sanitize"
  while read -r name; do
    log=$folder/sanitize/$name.log start=$SECONDS
    if (cd "$folder" && GPUPOOL_INSIDE_TEST=1 \
      TSAN_OPTIONS="die_after_fork=0 ${TSAN_OPTIONS:-}" \
      timeout 900 "tests/$name") >"$log" 2>&1; then
      say "passed in $((SECONDS - start)) s: $name"
    else
      failed=1
      tail -n 40 "$log" >&2
      echo "failed: $name, $log"
    fi
  done <"$folder/$2_tests.txt"
  return "$failed"
}
