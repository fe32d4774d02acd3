#!/bin/sh
# Installs Debian's prometheus (the server and promtool) if this machine lacks it, because the system tests scrape a live run with a
# real one. The tests start their own in a temporary folder; the service that the package would start is not started. Needs root.
set -e
if command -v prometheus >/dev/null && command -v promtool >/dev/null; then
    exit 0
fi
if [ "$(id -u)" != 0 ]; then
    echo "The system tests need Prometheus: sudo apt-get install prometheus" >&2
    exit 1
fi
echo "installing prometheus with apt-get: the system tests scrape a live run with it" >&2
apt-get update -qq
DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends prometheus >/dev/null
