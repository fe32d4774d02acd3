#!/bin/sh
# MLflow and wandb themselves under the contract of trackers: `make test-trackers`. $1 is the folder of our own venv's programs.
set -eu
BIN=$1
MLFLOW=3.17.2
WANDB=0.29.0
VENV=${SANDLOT_TRACKERS_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/sandlot/trackers-$MLFLOW-$WANDB}
if [ ! -f "$VENV/installed" ]; then
  echo "installing mlflow $MLFLOW and wandb $WANDB into $VENV ..."
  "$BIN/python" -m venv "$VENV"
  # What a tracker needs of MLflow is its client and a database; the rest of it is a gigabyte.
  "$VENV/bin/python" -m pip install --quiet --disable-pip-version-check "mlflow-skinny==$MLFLOW" sqlalchemy alembic "wandb==$WANDB"
  touch "$VENV/installed"
fi
# Theirs first, then ours: torch is not installed twice.
OURS=$("$BIN/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
THEIRS=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
echo "import site; site.addsitedir('$OURS')" >"$THEIRS/zzz-ours.pth"
# Their warnings are their own: ours are errors in our own tests.
export SANDLOT_TRACKERS="mlflow wandb" WANDB_ERROR_REPORTING=false MLFLOW_DISABLE_TELEMETRY=true
exec "$VENV/bin/python" -m pytest -p no:cacheprovider -o filterwarnings=default -o timeout=300 --disable-warnings \
  tests/contract/test_tracker_contract.py
