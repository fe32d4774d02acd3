#!/bin/sh
# /init of the emulated machine (aarch64.sh): mounts what a Linux has, runs the tests that lie on the second disk, switches off.
export PATH=/usr/sbin:/usr/bin HOME=/root LANG=C.UTF-8 PYTHONPATH=/opt/site:/var/tmp/sandlot/src
mount -t devtmpfs none /dev 2>/dev/null
mkdir -p /dev/pts /dev/shm
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devpts none /dev/pts
mount -t tmpfs none /dev/shm
mount -t tmpfs none /run
mount -t cgroup2 none /sys/fs/cgroup
ln -sf /proc/self/fd /dev/fd
ln -sf /dev/pts/ptmx /dev/ptmx
hostname aarch64
ip link set lo up
depmod 2>/dev/null
modprobe overlay
mkdir -p /work
mount -o ro /dev/vdb /work 2>/dev/null || mount -o ro /dev/vda /work
cp -r /work /var/tmp/sandlot
cd /var/tmp/sandlot || echo "no tests"
uname -a
sh run_tests
echo "tests ended with $?"
echo o > /proc/sysrq-trigger
while :; do sleep 60; done
