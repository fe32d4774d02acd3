#!/bin/sh
# Runs what other projects' own programs make of our exports, and ours of their tasks: every script in interop/, each of which
# installs its package in an environment of its own. $1: the folder of our python. Further words: these only, such as `harbor`.
# All run, whatever becomes of the others; the last lines name what passed, what failed, and what did not run here and why, also
# when the command is interrupted: all of it takes long. Exit code: 1 if one failed, 2 if there is no such kind, 3 if none ran,
# 130 if it was interrupted.
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
bin="$(cd "$1" && pwd)"
shift
known="$(for script in "$here"/interop/*.sh; do printf ' %s' "$(basename "$script" .sh)"; done)"
for name; do
  if [ ! -f "$here/interop/$name.sh" ]; then
    echo "no kind \`$name\`; there are:$known"
    exit 2
  fi
done
[ $# != 0 ] || set -- $known
export SANDLOT_FOREIGN="${SANDLOT_FOREIGN:-$HOME/.cache/sandlot-foreign}"
mkdir -p "$SANDLOT_FOREIGN"
SANDLOT_NOT_RUN="$(mktemp)"  # `not_run` of peer_venv.sh writes the reason into it
export SANDLOT_NOT_RUN
trap 'rm -f "$SANDLOT_NOT_RUN"' EXIT
passed='' failed='' not_run=''
show_results() {
  [ -z "$passed" ] || echo "passed:$passed"
  [ -z "$failed" ] || echo "failed:$failed"
  printf '%s' "$not_run"
}
# pytest ends by itself when it is interrupted; the next kind must not start then.
trap 'show_results; echo "interrupted: $*"; exit 130' INT TERM
for name; do
  echo "== $name"
  : >"$SANDLOT_NOT_RUN"
  start="$(date +%s)"
  if sh "$here/interop/$name.sh" "$bin"; then
    passed="$passed $name"
  elif [ -s "$SANDLOT_NOT_RUN" ]; then
    not_run="${not_run}not run: $name ($(cat "$SANDLOT_NOT_RUN"))
"
  else
    failed="$failed $name"
  fi
  echo "== $name took $(($(date +%s) - start)) s"
  shift  # what is left is named when the command is interrupted
done
show_results
[ -z "$failed" ] || exit 1
[ -n "$passed" ] || exit 3
