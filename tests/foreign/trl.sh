#!/bin/sh
# TRL and verl themselves on what we give them: `make test-trl`. $1 is the folder of our own venv's programs.
set -eu
BIN=$1
TRL=1.16.0
VERL=0.9.1
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/sandlot
HOME_OF_TRL=${SANDLOT_TRL_VENV:-$CACHE/trl-$TRL}
HOME_OF_VERL=${SANDLOT_VERL_VENV:-$CACHE/verl-$VERL}

install_into() {
  venv=$1 && shift
  if [ -x "$BIN/uv" ]; then
    "$BIN/uv" pip install --quiet --python "$venv/bin/python" "$@"
  else
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"
  fi
}

if [ ! -f "$HOME_OF_TRL/installed" ]; then
  echo "installing trl $TRL into $HOME_OF_TRL ..."
  python3 -m venv "$HOME_OF_TRL"
  install_into "$HOME_OF_TRL" torch==2.13.0 "trl==$TRL" datasets pytest pytest-timeout
  touch "$HOME_OF_TRL/installed"
fi
install_into "$HOME_OF_TRL" -e '.[torch]'
if [ ! -f "$HOME_OF_VERL/installed" ]; then
  echo "installing verl $VERL into $HOME_OF_VERL ..."
  python3 -m venv "$HOME_OF_VERL"
  install_into "$HOME_OF_VERL" torch==2.13.0 "verl==$VERL" pytest pytest-timeout
  touch "$HOME_OF_VERL/installed"
fi

WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT
echo "taking rollouts and exporting them ..."
"$BIN/sandlot" run environments/helpdesk --model scripted:mixed:0.5 --split train --group 4 --run "$WORK/runs/helpdesk" >"$WORK/log" 2>&1
"$BIN/sandlot" run environments/drill --model rookie --split train --rollouts 60 --run "$WORK/runs/drill" >>"$WORK/log" 2>&1
"$BIN/sandlot" run environments/arithmetic --model scripted:golden --split train --rollouts 60 --run "$WORK/runs/arithmetic" >>"$WORK/log" 2>&1
for ending in jsonl parquet; do
  "$BIN/sandlot" export sft "$WORK/runs/helpdesk" --out "$WORK/helpdesk-sft.$ending"
  "$BIN/sandlot" export pairs "$WORK/runs/helpdesk" --out "$WORK/helpdesk-pairs.$ending"
  "$BIN/sandlot" export sft "$WORK/runs/drill" --least 0 --out "$WORK/drill-sft.$ending"
  "$BIN/sandlot" export rollouts "$WORK/runs/drill" --out "$WORK/drill-rollouts.$ending"
  "$BIN/sandlot" export sft "$WORK/runs/arithmetic" --out "$WORK/arithmetic-sft.$ending"
done

# Their warnings are their own: ours are errors in our own tests. What our tests' configuration imports is not installed there.
export SANDLOT_EXPORTS="$WORK" HF_HUB_OFFLINE=1 TRL_EXPERIMENTAL_SILENCE=1 HF_DATASETS_CACHE="$WORK/datasets"
OPTIONS="-p no:cacheprovider --noconftest -o anyio_mode= -o filterwarnings=default -o timeout=300 --disable-warnings"
"$HOME_OF_TRL/bin/python" -m pytest $OPTIONS tests/foreign/trl_exports.py tests/foreign/trl_grpo.py
PYTHONPATH=src "$HOME_OF_VERL/bin/python" -m pytest $OPTIONS tests/foreign/verl_exports.py
