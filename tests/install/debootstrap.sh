#!/bin/sh
# Installs Debian's debootstrap if this machine lacks it: environments with a `debian:` image (office, proofs) are played by the
# system tests, and Sandlot installs their packages with it. Needs root.
set -e
if command -v debootstrap >/dev/null || [ -x /usr/sbin/debootstrap ]; then
    exit 0
fi
if [ "$(id -u)" != 0 ]; then
    echo "The system tests need debootstrap: sudo apt-get install debootstrap" >&2
    exit 1
fi
echo "installing debootstrap with apt-get: the system tests make Debian images with it" >&2
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap >/dev/null
