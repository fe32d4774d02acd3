#!/bin/sh
# NeMo Gym's resources servers: the same rewards by their own code and by ours. The package wants Python 3.12 and does not fit beside
# ours; PYTHON312 names one if `python3.12` is not on the path.
set -eu
bin="$1"
folder="$SANDLOT_FOREIGN/interop-nemo-gym"
if [ ! -f "$folder/installed" ]; then
  "${PYTHON312:-python3.12}" -m venv "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check nemo-gym==0.4.0
  touch "$folder/installed"
fi
NEMO_GYM_PYTHON="$folder/bin/python" "$bin/python" -m pytest -q -p no:cacheprovider -o timeout=1200 \
  tests/foreign/interop/nemo_gym_conformance.py
