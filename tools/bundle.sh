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

for binary in gpupool gpupoold gpupool-worker; do
  strip -o "$out/$name/bin/$binary" "$build/bin/$binary"
done
chmod +x "$out/$name/bin/"*
ldd "$out/$name/bin/"* | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
  grep -Ev '/(libc|libm|libpthread|libdl|librt|libresolv|ld-linux[^/]*)\.so' |
  while read -r library; do
    strip -o "$out/$name/lib/$(basename "$library")" "$(realpath "$library")"
  done
cp -r examples README.md LICENSE "$out/$name/"
rm -rf "$out/$name/examples/out"  # what the examples made here
tar -C "$out" -cJf "$out/$name.tar.xz" "$name"
echo "$out/$name.tar.xz ($(du -h "$out/$name.tar.xz" | cut -f1))"
