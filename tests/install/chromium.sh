#!/bin/sh
# Installs Chromium with apt-get, if this machine has none: the system tests read the pages of `sandlot view` in it. Needs root.
set -e
command -v chromium >/dev/null && exit 0
if [ "$(id -u)" != 0 ]; then
    echo "The system tests need: sudo apt-get install chromium" >&2
    exit 1
fi
echo "installing Chromium with apt-get: the system tests read pages in it" >&2
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
