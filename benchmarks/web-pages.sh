# How long the pages of the web page wait with 10,000 jobs, and with 1,000 devices;
# the method is in web_pages.py.
#   web-pages.sh BUILD_DIR
set -euo pipefail
exec /usr/bin/python3 "$(dirname "${BASH_SOURCE[0]}")/web_pages.py" "$1"
