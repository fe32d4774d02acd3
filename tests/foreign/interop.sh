#!/bin/sh
# Runs what other projects' own programs make of our exports, and ours of their tasks: every script in interop/, each of which
# installs its package in an environment of its own. $1: the folder of our python. $2: one of them only, such as `harbor`.
set -e
here="$(cd "$(dirname "$0")" && pwd)"
bin="$(cd "$1" && pwd)"
export SANDLOT_FOREIGN="${SANDLOT_FOREIGN:-$HOME/.cache/sandlot-foreign}"
mkdir -p "$SANDLOT_FOREIGN"
for script in "$here"/interop/*.sh; do
  name="$(basename "$script" .sh)"
  [ -z "$2" ] || [ "$2" = "$name" ] || continue
  echo "== $name"
  sh "$script" "$bin"
done
