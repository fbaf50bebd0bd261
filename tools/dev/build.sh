# Configuring and building. Binaries land in build/<preset>/bin.

# build_preset PRESET [ninja arguments]
build_preset() {
  local preset=$1
  shift
  need build
  local start=$SECONDS log=build/$preset/configure.log
  mkdir -p "build/$preset"
  if [ ! -f "build/$preset/build.ninja" ]; then
    say "configuring build/$preset"
    cmake --preset "$preset" >"$log" 2>&1 || {
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
