# Nanoseconds to free a block and allocate another; see allocator.cc.
#   allocator.sh BUILD_DIR
set -euo pipefail
exec "$1/benchmarks/bench-allocator"
