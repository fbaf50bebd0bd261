# Milliseconds in which two threads make a batch of transformed images, beside two
# workers of PyTorch's DataLoader with torchvision; the cases are in loader.py.
#   loader.sh BUILD_DIR
set -euo pipefail
exec /usr/bin/python3 "$(dirname "${BASH_SOURCE[0]}")/loader.py" "$1"
