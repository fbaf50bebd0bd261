# How long does the example job train, from its first step to its last, and how
# many samples a second is that? There is no peer here that trains.
#   train-digits.sh BUILD_DIR
set -euo pipefail
/usr/bin/python3 benchmarks/train_digits.py "$1/bin"
