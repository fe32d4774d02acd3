#!/bin/sh
# MiniWoB's pages in our browser: solved by hand, by the wrong answer, and by attacks on the report of the result.
set -eu
. "$(dirname "$0")/../peer_venv.sh"
sh tests/install/debootstrap.sh || not_run "the browser's image needs debootstrap: apt-get install debootstrap"
peer_venv miniwob 'miniwob==1.1.0'
peer_pytest tests/foreign/interop/miniwob_conformance.py
