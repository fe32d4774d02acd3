"""Users of their own for seats that share a sandbox: a home that no other seat can read, and processes that no other seat sees.

Where an environment has seats and an image, each seat is a user, and the commands of its calls run as that user, in `/home/SEAT`
(mode 700). A folder that the environment declares as shared is open to all seats. What setup and `@env.round` run is run by root,
and so is `world.exec(..., user="root")`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from sandlot.core.concurrency.clock import deadline
from sandlot.core.errors import SandboxError
from sandlot.core.ports.sandbox import FIRST_SEAT_ID, Command, Sandbox
from sandlot.env.declaration import Declaration
from sandlot.env.world import LiveWorld, sandbox_of
from sandlot.sandbox.command import run_command

_AS_USER = ("/bin/sh", "-c", 'umask "$0"; exec "$@"')
_MAKE = """
set -e; shared=$1; group=$2; shift 2
if [ -n "$shared" ]; then mkdir -p "$shared"; chown "0:$group" "$shared"; chmod 2770 "$shared"; fi
while [ $# -gt 0 ]; do mkdir -p "$2/tmp"; chown "$1" "$2" "$2/tmp"; chmod 700 "$2"; shift 2; done
"""
_GIVE = 'set -e; while [ $# -gt 0 ]; do chown -hR "$1" "$2"; chmod 700 "$2"; shift 2; done'


@dataclass(frozen=True, slots=True)
class SeatUser:
    """A user of the sandbox."""

    name: str
    id: int
    group: int
    """Its own group, or that of all seats if they share a folder."""
    umask: str

    @property
    def home(self) -> str:
        """The folder that only this user can read."""
        return f"/home/{self.name}"

    @property
    def ids(self) -> str:
        """As `Command.user` names it."""
        return f"{self.id}:{self.group}"

    def command(self, command: Command) -> Command:
        """The command as this user runs it; what it sets itself stays."""
        own = {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}
        own["TMPDIR"] = f"{self.home}/tmp"  # noqa: S108 - the user's own
        return msgspec.structs.replace(
            command,
            argv=(*_AS_USER, self.umask, *command.argv),
            env={**own, **command.env},
            cwd=self.home if command.cwd is None else command.cwd,
            user=self.ids,
        )


def users_of(env: Declaration) -> list[SeatUser]:
    """The users of the seats; none without a sandbox."""
    if env.image is None:
        return []
    group = FIRST_SEAT_ID + len(env.seats) if env.shared else None
    umask = "002" if env.shared else "077"
    ids = range(FIRST_SEAT_ID, FIRST_SEAT_ID + len(env.seats))
    return [SeatUser(seat.name, id_, group or id_, umask) for seat, id_ in zip(env.seats, ids, strict=True)]


async def open_users(env: Declaration, world: LiveWorld, within_s: float) -> list[SeatUser]:
    """Make the users with their homes, and the shared folder. `SandboxError` if the sandbox has no such users."""
    sandbox, users = sandbox_of(world.files), users_of(env)
    if sandbox is None or not users:
        return []
    world.users = {user.name: user.command for user in users}
    world.written = None
    groups = {user.group: "seats" if env.shared else user.name for user in users}
    with deadline(within_s, SandboxError, "making users for the seats"):
        accounts = [f"{user.name}:x:{user.id}:{user.group}::{user.home}:/bin/sh" for user in users]
        await _add_lines(sandbox, "/etc/passwd", accounts)
        await _add_lines(sandbox, "/etc/group", [f"{name}:x:{group}:" for group, name in groups.items()])
        words = [env.shared, str(users[0].group), *_homes(users)]
        await _run_as_root(sandbox, _MAKE, words, "making users for the seats")
    return users


async def give_homes(world: LiveWorld, users: Sequence[SeatUser], within_s: float) -> None:
    """Give each seat what setup wrote into its home."""
    sandbox = sandbox_of(world.files)
    if sandbox is not None and users:
        with deadline(within_s, SandboxError, "giving the seats their homes"):
            await _run_as_root(sandbox, _GIVE, _homes(users), "giving the seats their homes")
            world.written = None


def _homes(users: Sequence[SeatUser]) -> list[str]:
    return [word for user in users for word in (user.ids, user.home)]


async def _add_lines(sandbox: Sandbox, path: str, lines: Sequence[str]) -> None:
    """Put lines before those of the image: of two users of one name, the first counts."""
    try:
        known = await sandbox.read(path)
    except FileNotFoundError:
        known = b""
    await sandbox.write(path, "".join(f"{line}\n" for line in lines).encode() + known)


async def _run_as_root(sandbox: Sandbox, script: str, words: list[str], what: str) -> None:
    argv = ("/bin/sh", "-c", script, "sh", *words)
    done = await run_command(sandbox, Command(argv=argv, user="root", cwd="/"))
    if done.code != 0:
        raise SandboxError(f"{what} failed with code {done.code}: {done.stderr.strip()[-500:]}")
