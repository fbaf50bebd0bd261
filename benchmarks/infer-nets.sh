# Milliseconds of one run of nets that people serve beside the peer's; the cases are in compare.py.
#   infer-nets.sh BUILD_DIR
set -euo pipefail
exec /usr/bin/python3 "$(dirname "${BASH_SOURCE[0]}")/compare.py" "$1" infer-nets
