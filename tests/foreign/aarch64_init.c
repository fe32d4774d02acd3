/* First program of the emulated machine: loads what the kernel needs to see its disk, then starts /init on it. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static void must(int failed, const char *what)
{
    if (!failed)
        return;
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    reboot(RB_POWER_OFF);
}

int main(void)
{
    static const char *const modules[] = {"virtio", "virtio_ring", "virtio_mmio", "virtio_blk"};
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        char path[64];
        snprintf(path, sizeof path, "/%s.ko", modules[i]);
        int fd = open(path, O_RDONLY);
        must(fd < 0 || syscall(SYS_finit_module, fd, "", 0), path);
    }
    mkdir("/dev", 0755);
    mkdir("/disk", 0755);
    must(mount("none", "/dev", "devtmpfs", 0, NULL), "mount /dev");
    /* the disk of the tests can only be read, so it is not the one that mounts here; the order of the two is the machine's */
    must(mount("/dev/vda", "/disk", "ext4", 0, NULL) && mount("/dev/vdb", "/disk", "ext4", 0, NULL), "mount the disk");
    must(chdir("/disk") || mount(".", "/", NULL, MS_MOVE, NULL) || chroot("."), "enter the disk");
    execl("/init", "/init", NULL);
    must(1, "/init");
    return 1;
}
