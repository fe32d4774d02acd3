#!/bin/sh
# Installs Debian's docker.io (dockerd, containerd, runc, the docker command) if this machine has no dockerd, because the system
# tests start an engine of their own in a temporary folder. It changes nothing on a machine that has one. Needs root.
set -e
PATH="$PATH:/usr/sbin:/sbin"
if command -v dockerd >/dev/null && command -v docker >/dev/null; then
    exit 0
fi
if [ "$(id -u)" != 0 ]; then
    echo "The system tests need a Docker engine: sudo apt-get install docker.io" >&2
    exit 1
fi
echo "installing docker.io with apt-get: the system tests start an engine of their own" >&2
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker.io >/dev/null
