#!/bin/sh
# PEFT itself on what we read: `make test-peft`. $1 is the folder of our own venv's programs, which has torch and transformers.
set -eu
BIN=$1
PEFT=0.21.2
FOLDER=${SANDLOT_PEFT:-${XDG_CACHE_HOME:-$HOME/.cache}/sandlot/peft-$PEFT}
if [ ! -f "$FOLDER/installed" ]; then
  echo "installing peft $PEFT into $FOLDER ..."
  "$BIN/python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$FOLDER" "peft==$PEFT" accelerate psutil
  touch "$FOLDER/installed"
fi
# Their warnings are their own: ours are errors in our own tests.
PYTHONPATH="$FOLDER:tests" HF_HUB_OFFLINE=1 "$BIN/python" -m pytest -q -p no:cacheprovider --noconftest -o anyio_mode= \
  -o filterwarnings=default -o timeout=300 --disable-warnings tests/foreign/peft_adapters.py
