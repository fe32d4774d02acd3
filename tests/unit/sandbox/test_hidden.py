"""What a sandbox must not see or lead to: the machine it runs on, and what its process 1 has open."""

import pytest

from drive.native_sandboxes import KINDS, backend_of, sh
from sandlot.core.ports.sandbox import Command


@pytest.fixture(params=KINDS)
async def sandbox(request):
    async with backend_of(request.param) as backend, backend.open("host") as opened:
        yield opened


async def test_which_machine_it_is_cannot_be_read(sandbox):
    files = "cmdline partitions diskstats swaps iomem ioports slabinfo sys/kernel/random/boot_id"
    assert (await sh(sandbox, f"cd /proc; cat {files}")).stdout == ""


async def test_the_host_is_not_led_to_what_process_1_has_open(sandbox):
    """`/proc/self` is process 1 when it resolves a path for the host; some of its descriptors are folders below the overlay."""
    await sh(sandbox, "ln -s /proc/self/fd /fds; ln -s /proc/self/root/etc /linked; echo own > /tmp/x; ln -s tmp/x /fine")
    numbers = range(3, 30)
    for path in ("/linked/hosts", *(f"/proc/self/fd/{number}/etc/hosts" for number in numbers)):
        with pytest.raises(OSError):
            await sandbox.read(path)
    for number in numbers:
        with pytest.raises(OSError):
            await sandbox.write(f"/fds/{number}/planted", b"x")
        with pytest.raises(OSError):
            await sandbox.stat(f"/fds/{number}/etc")
    assert not [path for path in await sandbox.changed() if path.endswith("planted")]
    assert await sandbox.read("/fine") == b"own\n"
    await sandbox.write("/fine", b"through a link")
    await sandbox.write("/new//folder/../folder/file", b"made")
    assert (await sandbox.read("/tmp/x"), await sandbox.read("/new/folder/file")) == (b"through a link", b"made")


async def test_a_command_does_not_start_in_a_folder_process_1_has_open(sandbox):
    for number in range(3, 20):
        process = await sandbox.spawn(Command(argv=("pwd",), cwd=f"/proc/self/fd/{number}"))
        assert await process.wait() == 126
