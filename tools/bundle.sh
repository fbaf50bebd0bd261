#!/usr/bin/env bash
# Makes BUILD_DIR/bundle/gpupool-<version>-<machine>.tar.xz: the binaries and
# their shared libraries, stripped, found through $ORIGIN/../lib. It runs where
# nothing can be installed, on glibc 2.36 or later; glibc itself stays out.
#   tools/bundle.sh BUILD_DIR
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$(realpath "$1")
version=$(sed -n 's/^project(gpupool VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
name=gpupool-$version-$(uname -m)
out=$build/bundle
rm -rf "$out"
mkdir -p "$out/$name/bin" "$out/$name/lib"

for binary in gpupool gpupoold gpupool-worker gpupool-tokenizer; do
  strip -o "$out/$name/bin/$binary" "$build/bin/$binary"
done
chmod +x "$out/$name/bin/"*
# The CUDA module and the GPU suite, where they were built. CUDA's own
# libraries stay out: the target machine has them with its driver and toolkit.
parts=("$out/$name/bin/"*)
module=$build/lib/libgpupool_cuda.so
if [ -f "$module" ]; then
  strip -o "$out/$name/lib/libgpupool_cuda.so" "$module"
  parts+=("$out/$name/lib/libgpupool_cuda.so")
  mkdir -p "$out/$name/tests" "$out/$name/tools"
  for test in "$build/tests/"*gpu*_test; do
    [ -x "$test" ] || continue
    strip -o "$out/$name/tests/$(basename "$test")" "$test"
    chmod +x "$out/$name/tests/$(basename "$test")"
    parts+=("$out/$name/tests/$(basename "$test")")
  done
  cp tools/gpu_test.sh "$out/$name/tools/"
  if [ -x "$build/benchmarks/gpu_speed" ]; then
    mkdir -p "$out/$name/benchmarks/peers"
    strip -o "$out/$name/benchmarks/gpu_speed" "$build/benchmarks/gpu_speed"
    chmod +x "$out/$name/benchmarks/gpu_speed"
    parts+=("$out/$name/benchmarks/gpu_speed")
    cp benchmarks/gpu_speed.sh benchmarks/gpu_speed.py "$out/$name/benchmarks/"
    cp benchmarks/peers/gpu_peer.py "$out/$name/benchmarks/peers/"
  fi
fi
ldd "${parts[@]}" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
  grep -Ev '/(libcuda|libnvidia|libc|libm|libpthread|libdl|librt|libresolv|ld-linux[^/]*)\.so' |
  while read -r library; do
    strip -o "$out/$name/lib/$(basename "$library")" "$(realpath "$library")"
  done
cp -r docs examples README.md LICENSE "$out/$name/"
rm -rf "$out/$name/examples/out"  # what the examples made here
tar -C "$out" -cJf "$out/$name.tar.xz" "$name"
echo "$out/$name.tar.xz ($(du -h "$out/$name.tar.xz" | cut -f1))"
