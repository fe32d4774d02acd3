#!/bin/sh
# Runs what other projects' own programs make of our exports, and ours of their tasks: every script in interop/, each of which
# installs its package in an environment of its own. $1: the folder of our python. $2: one of them only, such as `harbor`.
# All run, whatever becomes of the others; the last lines name what passed, what failed, and what did not run here and why.
# Exit code: 1 if one failed, 2 if there is no such kind, 3 if none ran.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
bin="$(cd "$1" && pwd)"
only="${2:-}"
if [ -n "$only" ] && [ ! -f "$here/interop/$only.sh" ]; then
  echo "no kind \`$only\`; there are:$(for script in "$here"/interop/*.sh; do printf ' %s' "$(basename "$script" .sh)"; done)"
  exit 2
fi
export SANDLOT_FOREIGN="${SANDLOT_FOREIGN:-$HOME/.cache/sandlot-foreign}"
mkdir -p "$SANDLOT_FOREIGN"
SANDLOT_NOT_RUN="$(mktemp)"  # `not_run` of peer_venv.sh writes the reason into it
export SANDLOT_NOT_RUN
trap 'rm -f "$SANDLOT_NOT_RUN"' EXIT
trap 'exit 130' INT TERM  # pytest ends by itself when it is interrupted; the next kind must not start then
passed='' failed='' not_run=''
for script in "$here"/interop/*.sh; do
  name="$(basename "$script" .sh)"
  [ -z "$only" ] || [ "$only" = "$name" ] || continue
  echo "== $name"
  : >"$SANDLOT_NOT_RUN"
  if sh "$script" "$bin"; then
    passed="$passed $name"
  elif [ -s "$SANDLOT_NOT_RUN" ]; then
    not_run="${not_run}not run: $name ($(cat "$SANDLOT_NOT_RUN"))
"
  else
    failed="$failed $name"
  fi
done
[ -z "$passed" ] || echo "passed:$passed"
[ -z "$failed" ] || echo "failed:$failed"
printf '%s' "$not_run"
[ -z "$failed" ] || exit 1
[ -n "$passed" ] || exit 3
