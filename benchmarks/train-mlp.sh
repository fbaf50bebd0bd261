# Steps per second of a 784-128-10 MLP, batch 64, Adam, beside the bare matrix
# products of the same shapes.
#   train-mlp.sh BUILD_DIR
set -euo pipefail
"$1/benchmarks/train_mlp"
