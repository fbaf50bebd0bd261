# One function per verb of ./dev.

verb_help() {
  cat <<'TXT'
usage: ./dev VERB [arguments]

  demo             set up, build, and run the main job on real data: train the
                   digits model, serve it, classify the held-out images (on the
                   GPUs where there are nvcc and an NVIDIA driver)
  test [regex]     set up, build and run every test that this machine can run
                   (with a regex: those tests only; --long first: the daemon is
                   killed 10,000 times, not 20, and random graphs are run for
                   an hour; --stress first: three times in a
                   row beside four busy loops)
  sanitize KIND    build and run the tests of threads under ThreadSanitizer
                   (KIND is thread), or those of untrusted files under Address-
                   and UndefinedBehaviorSanitizer (address)
  build [preset]   build one of: release (default), dev, asan, tsan
  install [PREFIX] build the programs and the C++ client library, and put both
                   under PREFIX (default /usr/local)
  lint             formatting, headers that compile alone, clang-tidy, house rules
                   (--since REVISION: the slow ones for changed code only)
  format           rewrite the sources with clang-format
  bench [name]     run the benchmarks; one JSON line per figure
                   (--peers first: install PyTorch and ONNX Runtime beside)
  soak MINUTES     run a server under a modest load, and fail if its memory,
                   descriptors, threads or files grow (into build/soak;
                   --help lists the options)
  bundle           a relocatable tree of binaries with their libraries
  gpu-test         the GPU suite, a table of what passed; from a bundle:
                   tools/gpu_test.sh (says so when there is nothing to run)
  image-test       build the CPU container image from scratch and try it
                   (--cuda: the image for GPUs, where a CUDA 13 toolkit is)
  setup            install the packages that building and testing need
  clean            remove build/
TXT
}

verb_setup() { need build test lint; }

verb_build() {
  build_for_all "${1:-release}"
  build_preset "${1:-release}"
  say "$(cuda_news "${1:-release}")"
}

verb_install() {
  local prefix=${1:-/usr/local} part
  case $prefix in
    -*) die "install where? ./dev install [PREFIX]" ;;
  esac
  build_for_all release
  build_preset release gpupool gpupoold gpupool-worker gpupool-tokenizer gpupool_client
  build_cuda_module
  say "$(cuda_news release)"
  for part in programs client; do
    cmake --install build/release --prefix "$prefix" --component "$part" \
      >build/release/install.log 2>&1 || {
      tail -n 5 build/release/install.log >&2
      die "cannot install under $prefix"
    }
  done
  say "installed: $prefix/bin/gpupool, and gpupool::client for CMake"
}

# build_cuda_module: where there is nvcc. A module that cannot be built costs the
# GPU and nothing else.
build_cuda_module() {
  [ "$(cuda_of_build release)" = yes ] || return 0
  say "building the CUDA module"
  ninja -C build/release gpupool_cuda >&2 || {
    rm -f build/release/lib/libgpupool_cuda.so
    say "nvcc could not build the CUDA module: its messages are above"
  }
}

verb_demo() {
  build_for_all release
  build_preset release gpupool gpupoold gpupool-worker gpupool-tokenizer
  build_cuda_module
  say "$(cuda_news release)"
  tools/demo.sh build/release/bin
}

verb_test() {
  if [ -n "${GPUPOOL_INSIDE_TEST:-}" ]; then
    say "already inside the tests; not starting them again"
    return
  fi
  local run=run_tests
  while true; do
    case ${1:-} in
      # Each of the three tests of random graphs gets a third of an hour.
      --long) export GPUPOOL_KILLS=10000 GPUPOOL_FUZZ_SECONDS=1200 ;;
      --stress) run=run_stress ;;
      *) break ;;
    esac
    shift
  done
  need build test
  # Ubuntu has no such packages.
  (need browser) || say "no browser: the test of the web page is skipped"
  build_for_tests release
  build_preset release
  "$run" "$@"
}

verb_sanitize() {
  local preset
  case ${1:-} in
    thread) preset=tsan ;;
    address) preset=asan ;;
    *) die "sanitize what? thread or address" ;;
  esac
  need build test
  build_preset "$preset" "$1_tests"
  run_sanitized "$preset" "$1"
}

verb_lint() {
  need build lint
  build_for_tests release
  build_preset release
  "$python" tools/lint.py --build build/release "$@"
}

verb_format() {
  need lint
  git ls-files '*.h' '*.cc' | xargs clang-format -i
}

# The peers that benchmarks compare with: PyTorch from Debian, ONNX Runtime from
# the npm registry (its scripts would download a GPU build: they do not run).
install_peers() {
  need peers
  if ! command -v npm >/dev/null; then
    say "installing nodejs and npm"
    apt-get install -y --no-install-recommends nodejs npm >/dev/null ||
      die "npm is missing and could not be installed"
  fi
  [ -d build/peers/node_modules/onnxruntime-node ] && return
  say "installing onnxruntime-node into build/peers"
  mkdir -p build/peers
  npm install --prefix build/peers --ignore-scripts --no-audit --no-fund \
    onnxruntime-node >build/peers/npm.log 2>&1 ||
    die "npm failed; the whole log is build/peers/npm.log"
}

verb_bench() {
  if [ "${1:-}" = --peers ]; then
    shift
    install_peers
  fi
  need build test
  build_preset release
  tools/bench.sh build/release "$@"
}

verb_soak() {
  [ $# -gt 0 ] || die "how long? ./dev soak MINUTES"
  need build test
  case " $* " in
    *" --help "* | *" -h "*) ;;
    *) build_preset release gpupool gpupoold gpupool-worker gpupool-tokenizer ;;
  esac
  "$python" tools/soak/soak.py --bin build/release/bin "$@"
}

verb_bundle() {
  need build bundle
  build_for_all release
  build_preset release
  tools/bundle.sh build/release
}

verb_gpu_test() {
  need build
  build_for_all release
  build_preset release
  if [ ! -f build/release/lib/libgpupool_cuda.so ]; then
    say "there is nothing to run: $(cuda_news release)"
    return
  fi
  tools/gpu_test.sh "$@"
}

verb_image_test() {
  need build image
  tools/image_test.sh "$@"
}

verb_clean() { rm -rf build; }
