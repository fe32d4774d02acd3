#!/bin/sh
# Installs Debian's docker.io (dockerd, containerd, runc, the docker command) and uidmap if this machine lacks them, because the
# system tests start an engine of their own in a temporary folder, and sandboxes as an ordinary user with lent ids. It changes
# nothing on a machine that has both. Needs root.
set -e
PATH="$PATH:/usr/sbin:/sbin"
if command -v dockerd >/dev/null && command -v docker >/dev/null && command -v newuidmap >/dev/null; then
    exit 0
fi
if [ "$(id -u)" != 0 ]; then
    echo "The system tests need root, a Docker engine and newuidmap: sudo apt-get install docker.io uidmap" >&2
    exit 1
fi
echo "installing docker.io and uidmap with apt-get: the system tests start an engine of their own" >&2
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker.io uidmap >/dev/null
