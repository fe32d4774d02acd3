#!/bin/sh
# OpenEnv's own client plays environments that `sandlot serve --openenv` serves, and ours those that OpenEnv's server serves. It has a virtual environment without Sandlot.
set -eu
bin="$1"
folder="$SANDLOT_FOREIGN/interop-openenv"
if [ ! -f "$folder/installed" ]; then
  python3 -m venv "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check openenv-core==0.3.0
  touch "$folder/installed"
fi
OPENENV_PYTHON="$folder/bin/python" "$bin/python" -m pytest -q -p no:cacheprovider -o timeout=600 \
  tests/foreign/interop/openenv_conformance.py tests/foreign/interop/openenv_import_conformance.py
