#!/bin/sh
# Runs tests on a whole emulated aarch64 machine with a kernel of its own: `make test-aarch64`, or with others
# `make test-aarch64 TESTS="tests/unit/sandbox -k rename"`. Debian's kernel and packages and aarch64 wheels are fetched once (1.2 GB) and
# kept. Everything inside is 10 to 30 times slower than outside. Needs root. $1 is the folder of our own venv's programs.
set -eu
BIN=$1
shift
SUITE=bookworm
KEPT=${SANDLOT_AARCH64:-${XDG_CACHE_HOME:-$HOME/.cache}/sandlot-foreign/aarch64-$SUITE}
HERE=$(cd "$(dirname "$0")" && pwd)
PACKAGES=linux-image-cloud-arm64,python3,git,perl,procps,uidmap,util-linux,iproute2,kmod,gcc,libc6-dev
WHEELS="anyio msgspec mcp>=2,<3 aiohttp pyarrow numpy rich typer uvicorn starlette jinja2 pytest pytest-timeout hypothesis jsonschema"

if ! command -v qemu-system-aarch64 >/dev/null || ! command -v debootstrap >/dev/null || ! command -v aarch64-linux-gnu-gcc >/dev/null; then
  echo "installing qemu-system-arm, debootstrap and gcc-aarch64-linux-gnu with apt-get" >&2
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    qemu-system-arm debootstrap e2fsprogs cpio gcc-aarch64-linux-gnu libc6-dev-arm64-cross >/dev/null
fi

# A Debian whose packages are unpacked, not configured: nothing of another processor has to run here.
unpack_debian() {
  debootstrap --arch=arm64 --variant=minbase --download-only --include=$PACKAGES $SUITE "$1/packages" >"$1/debootstrap.log"
  root=$1/root
  mkdir -p "$root/usr/bin" "$root/usr/sbin" "$root/usr/lib" "$root/root" "$root/opt/site" "$root/etc"
  for top in bin sbin lib; do ln -s usr/$top "$root/$top"; done
  for package in "$1"/packages/var/cache/apt/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C "$root"
  done
  ln -sf dash "$root/usr/bin/sh"
  ln -sf gcc "$root/usr/bin/cc"
  ln -sf mawk "$root/usr/bin/awk"
  printf 'root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n' >"$root/etc/passwd"
  printf 'root:x:0:\ntty:x:5:\nnogroup:x:65534:\n' >"$root/etc/group"
  printf '127.0.0.1 localhost\n' >"$root/etc/hosts"
  cp "$HERE/aarch64_boot.sh" "$root/init"
  chmod 755 "$root/init"
}

# Wheels by pip of this machine, for that one. $WHEELS is a list. Then everything Python is compiled, because compiling takes minutes
# there; where this machine's Python is another than Debian's, the files are of no use and the tests only start later.
add_wheels() {
  set -f
  "$BIN/python" -m pip install -qq --disable-pip-version-check --root-user-action ignore --target "$1/root/opt/site" --python-version 3.11 \
    --platform manylinux2014_aarch64 --platform manylinux_2_28_aarch64 --only-binary=:all: $WHEELS
  set +f
  "$BIN/python" -m compileall -qq --invalidation-mode unchecked-hash -s "$1/root" "$1/root/usr/lib/python3.11" "$1/root/usr/lib/python3" \
    "$1/root/opt/site" || true
}

first_program() {
  mkdir "$1/first"
  for module in virtio/virtio virtio/virtio_ring virtio/virtio_mmio block/virtio_blk; do
    cp "$1"/root/lib/modules/*/kernel/drivers/$module.ko "$1/first"
  done
  aarch64-linux-gnu-gcc -static -O2 -o "$1/first/init" "$HERE/aarch64_init.c"
  (cd "$1/first" && find . | cpio --quiet -o -H newc) >"$1/first.cpio"
}

if [ ! -f "$KEPT/made" ]; then
  echo "making an aarch64 Debian in $KEPT ..." >&2
  rm -rf "$KEPT"
  mkdir -p "$KEPT"
  unpack_debian "$KEPT"
  add_wheels "$KEPT"
  first_program "$KEPT"
  cp "$KEPT"/root/boot/vmlinuz-* "$KEPT/kernel"
  mke2fs -q -t ext4 -d "$KEPT/root" "$KEPT/disk" 3G 2>/dev/null
  rm -rf "$KEPT/root" "$KEPT/packages" "$KEPT/first"
  touch "$KEPT/made"
fi

RUN=$(mktemp -d)
trap 'rm -rf "$RUN"' EXIT
mkdir "$RUN/tree"
(cd "$HERE/../.." && git ls-files -z --cached --others --exclude-standard | tar -c --null --ignore-failed-read -T -) | tar -x -C "$RUN/tree"
# The machine is slow: one process, and a test's time is no measure of it.
echo "exec python3 -m pytest -m 'not system' --timeout 900 --color no -p no:cacheprovider $*" >"$RUN/tree/run_tests"
mke2fs -q -t ext4 -d "$RUN/tree" "$RUN/tests" 256M 2>/dev/null
# What the tests write to the first disk is lost: it is kept for the next run.
qemu-system-aarch64 -M virt -cpu cortex-a72 -smp 2 -m 4G -accel tcg,thread=multi -nographic -no-reboot -nic none \
  -kernel "$KEPT/kernel" -initrd "$KEPT/first.cpio" -append "console=ttyAMA0 quiet panic=-1" \
  -drive "file=$KEPT/disk,if=none,id=root,format=raw,snapshot=on" -device virtio-blk-device,drive=root \
  -drive "file=$RUN/tests,if=none,id=tests,format=raw,readonly=on" -device virtio-blk-device,drive=tests \
  </dev/null | tee "$RUN/said"
grep -q '^tests ended with 0' "$RUN/said"
