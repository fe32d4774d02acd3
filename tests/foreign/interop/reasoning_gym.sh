#!/bin/sh
# All generators of reasoning-gym: the same scores on the same answers, and answers that attack the scorer.
set -eu
. "$(dirname "$0")/../peer_venv.sh"
peer_venv reasoning_gym 'reasoning-gym==0.1.25'
peer_pytest tests/foreign/interop/reasoning_gym_conformance.py
