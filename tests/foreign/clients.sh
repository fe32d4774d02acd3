#!/bin/sh
# The openai and anthropic packages against our model server, with images: `make test-clients`. $1 is the folder of our own
# venv's programs.
set -eu
BIN=$1
OPENAI=3.49.0
ANTHROPIC=2.8.0
VENV=${SANDLOT_CLIENTS_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/sandlot/clients-$OPENAI-$ANTHROPIC}
if [ ! -f "$VENV/installed" ]; then
  echo "installing openai $OPENAI and anthropic $ANTHROPIC into $VENV ..."
  "$BIN/python" -m venv "$VENV"
  "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check "openai==$OPENAI" "anthropic==$ANTHROPIC"
  touch "$VENV/installed"
fi
exec "$BIN/python" tests/foreign/image_server.py "$VENV/bin/python" tests/foreign/image_clients.py
