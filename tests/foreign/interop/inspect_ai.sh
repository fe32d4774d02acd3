#!/bin/sh
# Inspect AI: its logs as runs, its evals as environments, and our environments as its tasks.
set -eu
. "$(dirname "$0")/../peer_venv.sh"
peer_venv inspect_ai 'inspect-ai==0.3.285' 'inspect-evals==0.26.0' inspect-cyber
PYTHONPATH=tests/foreign/interop peer_pytest tests/foreign/interop/inspect_logs_conformance.py tests/foreign/interop/inspect_import_conformance.py tests/foreign/interop/inspect_roles_conformance.py tests/foreign/interop/inspect_tau2_conformance.py tests/foreign/interop/inspect_export_conformance.py
