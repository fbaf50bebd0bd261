#!/usr/bin/env bash
# Builds docker/cpu.Dockerfile without a Docker engine and runs the result:
# a base image from debootstrap, buildah with chroot isolation. Needs root.
#   tools/image_test.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
work=build/image
mkdir -p "$work"
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
storage=(--root "$PWD/$work/storage" --runroot "$PWD/$work/run")
base=localhost/gpupool-base:bookworm
image=localhost/gpupool:cpu

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

say "building $image (compiles everything: some 10 minutes)"
buildah "${storage[@]}" bud --network host --build-arg BASE="$base" \
  -f docker/cpu.Dockerfile -t "$image" . >"$work/build.log" 2>&1 || {
  tail -n 40 "$work/build.log" >&2
  exit 1
}

say "trying $image"
container=$(buildah "${storage[@]}" from "$image")
trap 'buildah "${storage[@]}" rm "$container" >/dev/null' EXIT
inspect=$(buildah "${storage[@]}" inspect "$container")
grep -q '"User": "gpupool"' <<<"$inspect" || { echo "not the gpupool user" >&2; exit 1; }
buildah "${storage[@]}" run --network host "$container" -- bash -ec '
  [ "$(id -u)" -ne 0 ] || { echo "runs as root" >&2; exit 1; }
  gpupoold --state-dir /var/lib/gpupool --devices cpu:1 --grpc-port 0 \
    --http-port 0 --metrics-port 0 --port-file /tmp/ports.json &
  daemon=$!
  for _ in $(seq 100); do [ -s /tmp/ports.json ] && break; sleep 0.1; done
  port=$(sed -n "s/.*\"grpc_port\": *\([0-9]*\).*/\1/p" /tmp/ports.json)
  export GPUPOOL_ADDRESS=127.0.0.1:$port
  cd /usr/share/gpupool
  gpupool run examples/digits.yaml --data examples/data/digits.csv.gz
  gpupool models load digits --wait
  gpupool models infer digits --data examples/data/digits.csv.gz \
    --held-out-of examples/digits.yaml
  kill -TERM $daemon && wait $daemon'
say "the image works"
