#!/usr/bin/env bash
# Builds a container image without a Docker engine and runs the result: a base
# image from debootstrap, buildah with chroot isolation. Needs root.
#   tools/image_test.sh          docker/cpu.Dockerfile
#   tools/image_test.sh --cuda   docker/cuda.Dockerfile with the CUDA 13 toolkit,
#                                cuDNN and NCCL of this machine, for the
#                                architectures in GPUPOOL_CUDA_ARCHITECTURES (90)
# Compiled files are taken from ccache's folder where this machine has one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
die() {
  echo "image_test: $*" >&2
  exit 1
}
case ${1:-} in
  '') kind=cpu ;;
  --cuda) kind=cuda ;;
  *) die "unknown argument $1; it takes none, or --cuda" ;;
esac
work=build/image
mkdir -p "$work"
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
storage=(--root "$PWD/$work/storage" --runroot "$PWD/$work/run")
base=localhost/gpupool-base:bookworm
toolkit=localhost/gpupool-toolkit:bookworm
image=localhost/gpupool:$kind

make_base() {
  if [ ! -f "$work/rootfs/etc/debian_version" ]; then
    say "making a Debian 12 base image"
    mirror=$(sed -n 's/^deb \(\[[^]]*\] \)\?\([^ ]*\) .*/\2/p; s/^URIs: \([^ ]*\).*/\1/p' \
      /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1 || true)
    debootstrap --variant=minbase --include=ca-certificates bookworm \
      "$work/rootfs" "${mirror:-http://deb.debian.org/debian}" >"$work/debootstrap.log"
    # The image reaches packages the way this machine does.
    cp -r /etc/apt/sources.list* /etc/apt/apt.conf.d "$work/rootfs/etc/apt/" 2>/dev/null || true
  fi
  container=$(buildah "${storage[@]}" from scratch)
  buildah "${storage[@]}" add -q "$container" "$work/rootfs" / >/dev/null
  buildah "${storage[@]}" commit -q --rm "$container" "$base" >/dev/null
}

# The toolkit with cuDNN and NCCL, where NVIDIA's images have them.
make_toolkit() {
  say "making an image with this machine's CUDA toolkit"
  container=$(buildah "${storage[@]}" from "$base")
  buildah "${storage[@]}" add -q "$container" "$(realpath /usr/local/cuda)" \
    /usr/local/cuda >/dev/null
  local file
  find -L /usr/include /usr/lib/x86_64-linux-gnu -maxdepth 2 \( -name 'cudnn*.h' \
    -o -name 'nccl*.h' -o -name 'libcudnn*.so.9' -o -name 'libnccl.so.2' \) |
    while read -r file; do
      buildah "${storage[@]}" add -q "$container" "$(realpath "$file")" "$file" >/dev/null
    done
  buildah "${storage[@]}" commit -q --rm "$container" "$toolkit" >/dev/null
}

# build_image [buildah's arguments]
build_image() {
  local folder
  folder=$(ccache -k cache_dir 2>/dev/null || true)
  [ "$kind" = cpu ] || [ ! -d "$folder" ] || set -- "$@" -v "$folder:/root/.cache/ccache"
  say "building $image (compiles everything: some 10 minutes)"
  buildah "${storage[@]}" bud --network host --build-arg BASE="$base" "$@" \
    -f "docker/$kind.Dockerfile" -t "$image" . >"$work/build.log" 2>&1 || {
    tail -n 40 "$work/build.log" >&2
    exit 1
  }
}

# in_image [buildah's arguments] -- COMMAND...
in_image() { buildah "${storage[@]}" run --network host "$@"; }

# Trains the digits, serves the model and classifies the held-out images, as the
# user that the image runs as. Then stops the daemon.
try_digits() {
  in_image "$container" -- bash -ec '
  [ "$(id -u)" -ne 0 ] || { echo "runs as root" >&2; exit 1; }
  gpupoold --state-dir /var/lib/gpupool --devices "$1" --grpc-port 0 \
    --http-port 0 --metrics-port 0 --port-file /tmp/ports.json &
  daemon=$!
  for _ in $(seq 100); do [ -s /tmp/ports.json ] && break; sleep 0.1; done
  port=$(sed -n "s/.*\"grpc_port\": *\([0-9]*\).*/\1/p" /tmp/ports.json)
  export GPUPOOL_ADDRESS=127.0.0.1:$port
  cd /usr/share/gpupool
  gpupool devices
  gpupool run examples/digits.yaml --data examples/data/digits.csv.gz
  gpupool models load digits --wait
  gpupool models infer digits --data examples/data/digits.csv.gz \
    --held-out-of examples/digits.yaml
  kill -TERM $daemon && wait $daemon' digits "$1"
}

# refused CODE TEXT COMMAND...: checks that the command ends with this code and
# prints this text.
refused() {
  local code=$1 text=$2 said status=0
  shift 2
  said=$(in_image "$container" -- "$@" 2>&1) || status=$?
  [ "$status" -eq "$code" ] || die "$* ended with $status, not $code: $said"
  grep -q "$text" <<<"$said" || die "$* does not say '$text': $said"
  say "$*: $(grep "$text" <<<"$said" | tail -n 1)"
}

# Checks that the module and NVIDIA's libraries load, and that every command says
# that there is no driver.
try_cuda() {
  local missing
  missing=$(in_image "$container" -- bash -c \
    'ldd /usr/local/lib/libgpupool_cuda.so /usr/local/lib/nvidia/*' | grep 'not found' || true)
  [ -z "$missing" ] || die "libraries are missing in the image: $missing"
  if [ ! -e /dev/nvidia0 ]; then
    refused 4 'NVIDIA driver' gpupool-worker devices
    refused 69 'no CUDA device cuda:0: .*NVIDIA driver' \
      gpupoold --state-dir /var/lib/gpupool --devices cuda:0
  fi
  try_cudnn
}

# The build's test of plans, with the image's cuDNN and the stub of the driver
# that comes with the toolkit.
try_cudnn() {
  local test home said
  home=$(realpath /usr/local/cuda)
  for test in engine_cuda_libraries_test engine_cuda_compiled_plans_test; do
    if [ ! -x "build/release/tests/$test" ]; then
      say "$test is not built here: cuDNN's plans are not tried in the image"
      return
    fi
    said=$(in_image -v "$PWD/build/release/tests:/tests:ro" \
      -v "$home/lib64/stubs:$home/lib64/stubs:ro" "$container" -- \
      "/tests/$test" 2>&1) || die "$test fails in the image: $said"
    ! grep -q 'SKIPPED' <<<"$said" || die "$test skips in the image: $said"
    say "$test in the image: $(grep PASSED <<<"$said")"
  done
}

# Prints the total size of the layers, compressed and unpacked.
measure() {
  local packed unpacked
  rm -rf "$work/layers"
  buildah "${storage[@]}" push -q --compression-format gzip "$image" \
    "dir:$work/layers" >/dev/null
  packed=$(du -sm --apparent-size "$work/layers" | cut -f1)
  rm -rf "$work/layers"
  unpacked=$(buildah "${storage[@]}" images --format '{{.Size}}' "$image")
  say "$image: $unpacked in layers, $packed MiB compressed with gzip"
}

make_base
if [ "$kind" = cuda ]; then
  make_toolkit
  build_image --build-arg BUILD_BASE="$base" --build-arg TOOLKIT="$toolkit" \
    --build-arg CUDA_ARCHITECTURES="${GPUPOOL_CUDA_ARCHITECTURES:-90}"
else
  build_image
fi

say "trying $image"
container=$(buildah "${storage[@]}" from "$image")
trap 'buildah "${storage[@]}" rm "$container" >/dev/null' EXIT
inspect=$(buildah "${storage[@]}" inspect "$container")
grep -q '"User": "gpupool"' <<<"$inspect" || die "$image does not run as gpupool"
if [ "$kind" = cuda ]; then
  try_cuda
  try_digits auto
  measure
  buildah "${storage[@]}" rmi "$toolkit" >/dev/null
else
  try_digits cpu:1
fi
say "the image works"
