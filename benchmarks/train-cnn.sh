# Milliseconds of train-cnn beside the peer's; the cases are in compare.py.
#   train-cnn.sh BUILD_DIR
set -euo pipefail
exec /usr/bin/python3 "$(dirname "${BASH_SOURCE[0]}")/compare.py" "$1" train-cnn
