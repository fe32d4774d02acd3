#!/bin/sh
# tau-bench: the same rewards by its own code and by ours. It is on no package index: SANDLOT_TAU_BENCH names its repository's folder.
# Its code needs only pydantic here, which Sandlot's environment has; the packages of model providers are not used.
set -eu
. "$(dirname "$0")/../peer_venv.sh"
[ -n "${SANDLOT_TAU_BENCH:-}" ] || not_run "it is on no package index; name the folder of its repository: SANDLOT_TAU_BENCH=FOLDER"
"$bin/python" -m pytest -q -p no:cacheprovider -o timeout=1200 tests/foreign/interop/tau_bench_conformance.py
