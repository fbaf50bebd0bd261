# Durable submissions per second through gRPC; the method is in
# durable_submits.py.
#   durable-submits.sh BUILD_DIR
set -euo pipefail
exec /usr/bin/python3 "$(dirname "${BASH_SOURCE[0]}")/durable_submits.py" "$1"
