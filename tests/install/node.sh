#!/bin/sh
# Installs Node.js, npm and debootstrap with apt-get, if this machine lacks them: the system tests run a public MCP server that is
# written in JavaScript, and a browser in an image of Debian packages. Needs root.
set -e
command -v node >/dev/null && command -v npm >/dev/null && command -v debootstrap >/dev/null && exit 0
if [ "$(id -u)" != 0 ]; then
    echo "The system tests need: sudo apt-get install nodejs npm debootstrap" >&2
    exit 1
fi
echo "installing Node.js, npm and debootstrap with apt-get, for the system tests" >&2
apt-get update -qq
missing=""
command -v node >/dev/null && command -v npm >/dev/null || missing="nodejs npm"
command -v debootstrap >/dev/null || missing="$missing debootstrap"
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
