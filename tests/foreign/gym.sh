#!/bin/sh
# Audits real Gymnasium environments, in a virtual environment of its own outside this folder. $1: the folder of our python.
set -e
folder="${SANDLOT_FOREIGN:-$HOME/.cache/sandlot-foreign}/gymnasium"
if [ ! -x "$folder/bin/python" ]; then
  "$1/python" -m venv "$folder"
  "$folder/bin/pip" install --quiet --disable-pip-version-check "gymnasium==1.2.0" pygame
fi
exec "$1/python" "$(dirname "$0")/gym_environments.py" "$folder/bin/python"
