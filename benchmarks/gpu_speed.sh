# Our speed on a GPU beside PyTorch's (gpu_speed.py says what is printed).
#   gpu_speed.sh BUILD_DIR [LIMIT_SECONDS]
set -euo pipefail
exec python3 "$(dirname "${BASH_SOURCE[0]}")/gpu_speed.py" "$@"
