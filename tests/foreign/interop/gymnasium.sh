#!/bin/sh
# Gymnasium and PettingZoo, both ways: their own checkers on ours, and their worlds as ours.
set -eu
. "$(dirname "$0")/../peer_venv.sh"
peer_venv gymnasium 'gymnasium==1.4.0' 'pettingzoo[classic]==1.27.0'
peer_pytest tests/foreign/interop/gymnasium_conformance.py tests/foreign/interop/worlds_conformance.py
