#!/bin/sh
# All suites of AgentDojo: the same verdicts on the same conduct, with and without injections.
set -eu
. "$(dirname "$0")/../peer_venv.sh"
peer_venv agentdojo 'agentdojo==0.1.35'
peer_pytest tests/foreign/interop/agentdojo_conformance.py
