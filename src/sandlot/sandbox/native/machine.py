"""Starts a native sandbox's machine."""

from collections.abc import Sequence
from functools import partial

from anyio.abc import TaskGroup

from sandlot.sandbox.defaults import CommandDefaults
from sandlot.sandbox.link.link import Link
from sandlot.sandbox.link.machine import Machine
from sandlot.sandbox.native.zygote import OverlayTree, Zygote
from sandlot.sandbox.quota import Quota


async def start_machine(
    zygote: Zygote, tasks: TaskGroup, trees: Sequence[OverlayTree], quota: Quota, defaults: CommandDefaults
) -> Machine:
    """A fresh machine on these layers, ready for commands; its reader runs in `tasks` until it is closed."""
    started = await zygote.start(trees, quota)
    link = Link(started.sock, partial(zygote.cause_of_death, started.number))
    try:
        upper = await link.read_hello_fd(started.sock)
    except BaseException:
        link.close()
        raise
    tasks.start_soon(link.run)
    return Machine(link, upper, quota, defaults, number=started.number)
