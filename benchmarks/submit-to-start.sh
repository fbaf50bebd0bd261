# From submission to first step on an idle device; the method is in
# submit_to_start.py.
#   submit-to-start.sh BUILD_DIR
set -euo pipefail
exec /usr/bin/python3 "$(dirname "${BASH_SOURCE[0]}")/submit_to_start.py" "$1"
