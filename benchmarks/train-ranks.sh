# Milliseconds of a training step on two CPU devices beside the peer's and
# beside one device with two threads; the cases are in compare.py.
#   train-ranks.sh BUILD_DIR
set -euo pipefail
exec /usr/bin/python3 "$(dirname "${BASH_SOURCE[0]}")/compare.py" "$1" train-ranks
