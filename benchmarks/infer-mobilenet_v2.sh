# Milliseconds of infer-mobilenet_v2 beside the peer's; the cases are in compare.py.
#   infer-mobilenet_v2.sh BUILD_DIR
set -euo pipefail
exec /usr/bin/python3 "$(dirname "${BASH_SOURCE[0]}")/compare.py" "$1" infer-mobilenet_v2
