#!/bin/sh
# Installs a compiler and an emulator for the other processor (aarch64 on x86-64 and the reverse) and musl's compiler, if this machine
# lacks them: the system tests build the sandbox program and wheels for both. Needs root.
set -e
case "$(uname -m)" in
    x86_64) other=aarch64 ;;
    *) other=x86_64 ;;
esac
compiler="$other-linux-gnu-gcc"
if command -v "$compiler" >/dev/null && command -v "qemu-$other-static" >/dev/null && command -v musl-gcc >/dev/null; then
    exit 0
fi
if [ "$(id -u)" != 0 ]; then
    echo "The system tests need: sudo apt-get install gcc-$(echo $other | tr _ -)-linux-gnu qemu-user-static musl-tools" >&2
    exit 1
fi
echo "installing a compiler and an emulator for $other, and musl, with apt-get: the system tests build for both processors" >&2
apt-get update -qq
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    "gcc-$(echo $other | tr _ -)-linux-gnu" "libc6-dev-$([ $other = aarch64 ] && echo arm64 || echo amd64)-cross" qemu-user-static musl-tools >/dev/null
