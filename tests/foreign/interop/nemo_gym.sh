#!/bin/sh
# NeMo Gym's resources servers: the same rewards by their own code and by ours. The package wants Python 3.12 (PYTHON312 names one)
# and does not fit beside ours.
set -eu
. "$(dirname "$0")/../peer_venv.sh"
python="$(python_312)"
separate_venv nemo-gym "$python" nemo-gym==0.4.0
NEMO_GYM_PYTHON="$PEER/bin/python" "$bin/python" -m pytest -q -p no:cacheprovider -o timeout=1200 \
  tests/foreign/interop/nemo_gym_conformance.py
