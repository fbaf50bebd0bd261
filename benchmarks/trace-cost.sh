# What traces cost ModelInfer, beside a server without them; the method is in
# trace_cost.py.
#   trace-cost.sh BUILD_DIR
set -euo pipefail
exec /usr/bin/python3 "$(dirname "${BASH_SOURCE[0]}")/trace_cost.py" "$1"
