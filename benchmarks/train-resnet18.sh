# Milliseconds of train-resnet18 beside the peer's; the cases are in compare.py.
#   train-resnet18.sh BUILD_DIR
set -euo pipefail
exec /usr/bin/python3 "$(dirname "${BASH_SOURCE[0]}")/compare.py" "$1" train-resnet18
