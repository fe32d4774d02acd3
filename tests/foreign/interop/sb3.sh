#!/bin/sh
# Stable-Baselines3 trains on one of our environments.
set -eu
. "$(dirname "$0")/../peer_venv.sh"
peer_venv sb3 'torch==2.13.0' 'stable-baselines3==2.9.2'
peer_pytest tests/foreign/interop/sb3_conformance.py
