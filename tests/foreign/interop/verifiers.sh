#!/bin/sh
# Environments of verifiers: the same rewards by its own loop and by ours, on the same endpoint. Its packages do not fit beside
# ours (mcp), so it has a virtual environment without Sandlot. Its repository's environments: SANDLOT_VERIFIERS_ENVIRONMENTS.
set -eu
. "$(dirname "$0")/../peer_venv.sh"
separate_venv verifiers "$bin/python" 'verifiers==0.3.1 math-verify reasoning-gym==0.1.25'
VERIFIERS_PYTHON="$PEER/bin/python" "$bin/python" -m pytest -q -rs -p no:cacheprovider -o timeout=600 \
  tests/foreign/interop/verifiers_conformance.py
