# From the order to give way to the device being free; the method is in
# preempt.py.
#   preempt.sh BUILD_DIR
set -euo pipefail
exec /usr/bin/python3 "$(dirname "${BASH_SOURCE[0]}")/preempt.py" "$1"
