# Milliseconds of infer-resnet18 beside the peer's; the cases are in compare.py.
#   infer-resnet18.sh BUILD_DIR
set -euo pipefail
exec /usr/bin/python3 "$(dirname "${BASH_SOURCE[0]}")/compare.py" "$1" infer-resnet18
