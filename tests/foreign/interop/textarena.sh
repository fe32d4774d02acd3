#!/bin/sh
# TextArena's games for one player: the same moves give the same game and the same reward.
set -eu
. "$(dirname "$0")/../peer_venv.sh"
peer_venv textarena 'textarena==0.7.4'
peer_pytest tests/foreign/interop/textarena_conformance.py
