# Milliseconds of infer-mlp beside the peer's; the cases are in compare.py.
#   infer-mlp.sh BUILD_DIR
set -euo pipefail
exec /usr/bin/python3 "$(dirname "${BASH_SOURCE[0]}")/compare.py" "$1" infer-mlp
