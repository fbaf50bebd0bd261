# Configuring and building. Binaries land in build/<preset>/bin.

# needs_configuring PRESET: nothing is there, or there is nvcc now and the build
# does without.
needs_configuring() {
  [ -f "build/$1/build.ninja" ] || return 0
  look_for_cuda
  [ -n "$nvcc" ] && [[ $(cuda_of_build "$1") == no* ]]
}

# configure_preset PRESET
configure_preset() {
  local log=build/$1/configure.log
  need build
  mkdir -p "build/$1"
  needs_configuring "$1" || return 0
  say "configuring build/$1"
  cmake --preset "$1" >"$log" 2>&1 || {
    tail -n 30 "$log" >&2
    die "configuring failed; the whole log is $log"
  }
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
