# Milliseconds from the file of a model of 650 MB to its first result; the cases are in compare.py.
#   load.sh BUILD_DIR
set -euo pipefail
exec /usr/bin/python3 "$(dirname "${BASH_SOURCE[0]}")/compare.py" "$1" load
