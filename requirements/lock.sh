#!/bin/sh
# Renews the locks: `make lock`. They hold for every Python from 3.11 on, x86-64 and aarch64. $1 is the folder of our own venv's programs.
#   runtime.txt  what an installed Sandlot needs        dev.txt  what developing and CI need, what builds the package included
#   uv.txt       the installer                          torch.txt  torch alone, by version (see there)
# What runtime.txt names is described in sandlot.cdx.json (SBOM) and licenses/THIRD-PARTY.md, which wheels carry.
set -eu
BIN=$1
cd "$(dirname "$0")/.."
FOLDER=$(mktemp -d)
trap 'rm -rf "$FOLDER"' EXIT
echo "torch ; python_version < '0'" >"$FOLDER/without-torch"
compile() {
  "$BIN/uv" pip compile --quiet --universal --python-version 3.11 --generate-hashes --upgrade \
    --custom-compile-command "make lock" --overrides "$FOLDER/without-torch" "$@"
}
compile pyproject.toml --extra dev requirements/torch.in -o requirements/dev.txt
compile pyproject.toml --constraints requirements/dev.txt -o requirements/runtime.txt
echo uv | compile - -o requirements/uv.txt
"$BIN/python" requirements/describe.py
