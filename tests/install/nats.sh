#!/bin/sh
# Installs Debian's nats-server if this machine lacks it, because the system tests stream a live run to a real JetStream. The tests
# start their own in a temporary folder; the service that the package would start is not started. Needs root.
set -e
PATH=$PATH:/usr/sbin
if command -v nats-server >/dev/null; then
    exit 0
fi
if [ "$(id -u)" != 0 ]; then
    echo "The system tests need a NATS server: sudo apt-get install nats-server" >&2
    exit 1
fi
echo "installing nats-server with apt-get: the system tests stream a live run to it" >&2
apt-get update -qq
DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends nats-server >/dev/null
