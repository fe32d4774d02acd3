#!/bin/sh
# Rollouts on Ray itself: `make test-ray`. The contract of executors, workers that die, and a cluster of several nodes on this
# machine. $1 is the folder of our own venv's programs; further arguments are tests to run instead.
set -eu
BIN=$1
shift
RAY=2.60.0
VENV=${SANDLOT_RAY_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/sandlot/ray-$RAY}
if [ ! -f "$VENV/installed" ]; then
  echo "installing ray $RAY into $VENV ..."
  "$BIN/python" -m venv "$VENV"
  "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check "ray[default]==$RAY"
  touch "$VENV/installed"
fi
# Theirs first, then ours: Sandlot is not installed twice. Ray starts its workers with the same Python.
OURS=$("$BIN/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
THEIRS=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
echo "import site; site.addsitedir('$OURS')" >"$THEIRS/zzz-ours.pth"
export RAY_USAGE_STATS_ENABLED=0
unset RAY_ADDRESS
# Its warnings are its own: ours are errors in our own tests.
test_on_ray() {
  "$VENV/bin/python" -m pytest -p no:cacheprovider -o filterwarnings=default -o timeout=600 --disable-warnings "$@"
}
if [ $# -gt 0 ]; then
  test_on_ray "$@"
  exit
fi
# One process each: a Ray that was started inside one turns its authentication on for every cluster that is started there later.
STATUS=0
for TESTS in tests/contract/test_executor_contract.py tests/unit/run/executors tests/foreign/ray_cluster.py tests/foreign/ray_chaos.py; do
  test_on_ray "$TESTS" || STATUS=$?
done
exit $STATUS
