# Milliseconds of one run of an ensemble of trees beside the peer's; the cases are in compare.py.
#   infer-trees.sh BUILD_DIR
set -euo pipefail
exec /usr/bin/python3 "$(dirname "${BASH_SOURCE[0]}")/compare.py" "$1" infer-trees
