#!/bin/sh
# BFCL's multi-turn tasks: the same verdicts on the same calls. Without the packages of model providers that it asks for.
set -eu
. "$(dirname "$0")/../peer_venv.sh"
peer_venv bfcl mpmath numpy '--no-deps bfcl-eval==2026.3.23'
peer_pytest tests/foreign/interop/bfcl_conformance.py
