# Configuring and building. Binaries land in build/<preset>/bin.

# needs_configuring PRESET: nothing is there, or there is nvcc now and the build
# does without, or it is for other GPUs than the environment says.
needs_configuring() {
  [ -f "build/$1/build.ninja" ] || return 0
  [ -z "${GPUPOOL_CUDA_ARCHITECTURES:-}" ] ||
    grep -qxF "GPUPOOL_CUDA_ARCHITECTURES:STRING=$GPUPOOL_CUDA_ARCHITECTURES" \
      "build/$1/CMakeCache.txt" || return 0
  look_for_cuda
  [ -n "$nvcc" ] && [[ $(cuda_of_build "$1") == no* ]]
}

# configure_preset PRESET: GPUPOOL_CUDA_ARCHITECTURES in the environment chooses
# the GPUs of the CUDA module, in a folder that is there already too.
configure_preset() {
  local log=build/$1/configure.log gpus=()
  need build
  mkdir -p "build/$1"
  needs_configuring "$1" || return 0
  say "configuring build/$1"
  [ -n "${GPUPOOL_CUDA_ARCHITECTURES:-}" ] &&
    gpus=("-DGPUPOOL_CUDA_ARCHITECTURES=$GPUPOOL_CUDA_ARCHITECTURES")
  cmake --preset "$1" "${gpus[@]}" >"$log" 2>&1 || {
    tail -n 30 "$log" >&2
    die "configuring failed; the whole log is $log"
  }
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
  [ -z "${GPUPOOL_INSIDE_TEST:-}" ] || return 0
  grep -qx 'GPUPOOL_CUDA_ARCHITECTURES:STRING=TESTS' \
    "build/$1/CMakeCache.txt" 2>/dev/null || return 0
  export GPUPOOL_CUDA_ARCHITECTURES=${GPUPOOL_CUDA_ARCHITECTURES:-AUTO}
}

# build_preset PRESET [ninja arguments]
build_preset() {
  local preset=$1 start=$SECONDS
  shift
  configure_preset "$preset"
  say "building build/$preset (about 10 minutes when nothing is cached)"
  ninja -C "build/$preset" "$@" >&2 || die "the build failed"
  say "built in $((SECONDS - start)) s: build/$preset/bin"
}

# The system's Python, not one that shadows it in PATH: Debian's python3-*
# packages belong to it.
python=/usr/bin/python3
