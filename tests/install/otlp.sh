#!/bin/sh
# Installs the real OTLP messages (opentelemetry-proto) into a venv of their own if they are not there yet, because the system tests
# decode what `--otlp` sends with them. Prints the Python of that venv.
set -eu
VERSION=1.45.2
VENV=${SANDLOT_OTLP_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/sandlot/otlp-$VERSION}
if [ ! -f "$VENV/installed" ]; then
  echo "installing opentelemetry-proto $VERSION into $VENV ..." >&2
  "${1:-python3}" -m venv "$VENV"
  "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check "opentelemetry-proto==$VERSION" >&2
  touch "$VENV/installed"
fi
echo "$VENV/bin/python"
