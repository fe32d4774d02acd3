#!/bin/sh
# OpenEnv's own client plays environments that `sandlot serve --openenv` serves, and those that we export and OpenEnv's own server
# serves; ours plays those that OpenEnv's server serves. It has a virtual environment without Sandlot.
set -eu
. "$(dirname "$0")/../peer_venv.sh"
separate_venv openenv "$bin/python" openenv-core==0.3.0
OPENENV_PYTHON="$PEER/bin/python" PYTHONPATH=tests/foreign/interop "$bin/python" -m pytest -q -p no:cacheprovider -o timeout=600 \
  tests/foreign/interop/openenv_conformance.py tests/foreign/interop/openenv_import_conformance.py
