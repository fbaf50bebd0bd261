# ModelInfer beside a bare gRPC echo of the same bytes in the same run.
#   infer-roundtrip.sh BUILD_DIR
set -euo pipefail
exec /usr/bin/python3 "$(dirname "${BASH_SOURCE[0]}")/infer_roundtrip.py" "$1"
