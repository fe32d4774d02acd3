#!/bin/sh
# tau-bench: the same rewards by its own code and by ours. It is on no package index: SANDLOT_TAU_BENCH names its repository's folder.
# Its code needs only pydantic here, which Sandlot's environment has; the packages of model providers are not used.
set -eu
bin="$1"
if [ -z "${SANDLOT_TAU_BENCH:-}" ]; then
  echo "not run: name the folder of tau-bench's repository, SANDLOT_TAU_BENCH=FOLDER"
  exit 0
fi
"$bin/python" -m pytest -q -p no:cacheprovider -o timeout=1200 tests/foreign/interop/tau_bench_conformance.py
