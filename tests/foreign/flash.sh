#!/bin/sh
# FlashAttention 4 as the trainer calls it, compiled only: `make test-flash`. $1 is the folder of our own venv's programs, which has torch.
set -eu
BIN=$1
# Without torch, which our own venv has.
PACKAGES="flash-attn-4==4.0.0b36 nvidia-cutlass-dsl==4.8.1 nvidia-cutlass-dsl-libs-core==4.8.1 nvidia-cutlass-dsl-libs-base==4.8.1
  nvidia-cutlass-dsl-libs-cu13==4.8.1 quack-kernels==0.6.5 apache-tvm-ffi==0.1.15.post2 torch-c-dlpack-ext==0.1.5 cuda-bindings
  cuda-pathfinder protobuf einops"
FOLDER=${SANDLOT_FLASH:-${XDG_CACHE_HOME:-$HOME/.cache}/sandlot/flash-$(echo "$PACKAGES" | cksum | cut -d' ' -f1)}
if [ ! -f "$FOLDER/installed" ]; then
  echo "installing FlashAttention 4 into $FOLDER ..."
  # shellcheck disable=SC2086 - a list of words
  "$BIN/python" -m pip install --quiet --disable-pip-version-check --no-deps --target "$FOLDER" $PACKAGES
  touch "$FOLDER/installed"
fi
FLASH_ATTENTION_ARCH=sm_90 CUTE_DSL_ARCH=sm_90a FLASH_ATTENTION_NUM_SMS=132 \
  PYTHONPATH="$FOLDER:$FOLDER/nvidia_cutlass_dsl/dsl_packages" "$BIN/python" -m pytest -q -p no:cacheprovider --noconftest -o anyio_mode= \
  -o filterwarnings=default -o timeout=300 --disable-warnings tests/foreign/flash_compiles.py
