# Milliseconds of training steps of such nets beside the peer's; the cases are in compare.py.
#   train-nets.sh BUILD_DIR
set -euo pipefail
exec /usr/bin/python3 "$(dirname "${BASH_SOURCE[0]}")/compare.py" "$1" train-nets
