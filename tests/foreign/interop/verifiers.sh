#!/bin/sh
# Environments of verifiers: the same rewards by its own loop and by ours, on the same endpoint. Its packages do not fit beside
# ours (mcp), so it has a virtual environment without Sandlot. Its repository's environments: SANDLOT_VERIFIERS_ENVIRONMENTS.
set -eu
bin="$1"
folder="$SANDLOT_FOREIGN/interop-verifiers"
if [ ! -f "$folder/installed" ]; then
  python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check verifiers==0.3.1 math-verify reasoning-gym==0.1.25
  touch "$folder/installed"
fi
VERIFIERS_PYTHON="$folder/bin/python" "$bin/python" -m pytest -q -p no:cacheprovider -o timeout=600 \
  tests/foreign/interop/verifiers_conformance.py
