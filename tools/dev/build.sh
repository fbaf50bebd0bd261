# Configuring and building. Binaries land in build/<preset>/bin.

# GPUPOOL_CUDA_ARCHITECTURES in the environment chooses the GPUs of the CUDA
# module, in a folder that is there already too.

# is_configured PRESET: whether the build folder is there, for those GPUs.
is_configured() {
  [ -f "build/$1/build.ninja" ] || return 1
  [ -z "${GPUPOOL_CUDA_ARCHITECTURES:-}" ] ||
    grep -qxF "GPUPOOL_CUDA_ARCHITECTURES:STRING=$GPUPOOL_CUDA_ARCHITECTURES" \
      "build/$1/CMakeCache.txt"
}

# build_for_tests PRESET: a fresh folder gets kernels for one kind of GPU, which
# is all that tests without a GPU need. One that is there stays as it is.
build_for_tests() {
  [ -f "build/$1/build.ninja" ] ||
    export GPUPOOL_CUDA_ARCHITECTURES=${GPUPOOL_CUDA_ARCHITECTURES:-TESTS}
}

# build_for_all PRESET: such a folder gets the kernels for all GPUs. A choice
# that somebody made stays.
build_for_all() {
  grep -qx 'GPUPOOL_CUDA_ARCHITECTURES:STRING=TESTS' \
    "build/$1/CMakeCache.txt" 2>/dev/null || return 0
  export GPUPOOL_CUDA_ARCHITECTURES=${GPUPOOL_CUDA_ARCHITECTURES:-AUTO}
}

# build_preset PRESET [ninja arguments]
build_preset() {
  local preset=$1
  shift
  need build
  local start=$SECONDS log=build/$preset/configure.log
  mkdir -p "build/$preset"
  if ! is_configured "$preset"; then
    say "configuring build/$preset"
    local gpus=()
    [ -n "${GPUPOOL_CUDA_ARCHITECTURES:-}" ] &&
      gpus=("-DGPUPOOL_CUDA_ARCHITECTURES=$GPUPOOL_CUDA_ARCHITECTURES")
    cmake --preset "$preset" "${gpus[@]}" >"$log" 2>&1 || {
      tail -n 30 "$log" >&2
      die "configuring failed; the whole log is $log"
    }
  fi
  say "building build/$preset (about 10 minutes when nothing is cached)"
  ninja -C "build/$preset" "$@" >&2 || die "the build failed"
  say "built in $((SECONDS - start)) s: build/$preset/bin"
}

# The system's Python, not one that shadows it in PATH: Debian's python3-*
# packages belong to it.
python=/usr/bin/python3
