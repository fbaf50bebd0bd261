# Milliseconds of one run of products with 4-bit weights beside the peer's; the cases are in compare.py.
#   infer-codes.sh BUILD_DIR
set -euo pipefail
exec /usr/bin/python3 "$(dirname "${BASH_SOURCE[0]}")/compare.py" "$1" infer-codes
