# Microseconds that the scheduler takes to decide; see decision_latency.cc.
#   decision-latency.sh BUILD_DIR
set -euo pipefail
exec "$1/benchmarks/decision_latency"
