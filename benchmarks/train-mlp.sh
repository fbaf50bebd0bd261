# Steps per second of a 784-128-10 MLP, batch 64, Adam, beside the bare matrix
# products of the same shapes; then milliseconds of the same step from an ONNX
# model beside the peer's, as compare.py has it.
#   train-mlp.sh BUILD_DIR
set -euo pipefail
"$1/benchmarks/train_mlp"
exec /usr/bin/python3 "$(dirname "${BASH_SOURCE[0]}")/compare.py" "$1" train-mlp
