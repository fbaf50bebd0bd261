# Completion times of public traces under our policies; the cases are in sim.py.
#   sim-philly.sh BUILD_DIR
set -euo pipefail
exec /usr/bin/python3 "$(dirname "${BASH_SOURCE[0]}")/sim.py" "$1" philly
