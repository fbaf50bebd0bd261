# How much of openb's devices jobs get; the cases are in sim_openb.py.
#   sim-openb.sh BUILD_DIR
set -euo pipefail
exec /usr/bin/python3 "$(dirname "${BASH_SOURCE[0]}")/sim_openb.py" "$1"
