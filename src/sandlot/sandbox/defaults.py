"""What an image wants its commands to start with: variables, a user, a folder. A command's own words go before them."""

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from sandlot.core.ports.sandbox import Command

_MOST_BYTES = 128 << 10
"""Of an image's variables: more would leave a command no room for its own words."""


@dataclass(frozen=True, slots=True)
class CommandDefaults:
    """As an image's configuration says."""

    env: Mapping[str, str] = field(default_factory=dict[str, str])
    user: str = "root"
    folder: str = "/"

    def apply(self, command: Command) -> Command:
        """The command with everything it left open decided."""
        if command.user is not None and command.cwd is not None and not self.env:
            return command
        return msgspec.structs.replace(
            command,
            env={**self.env, **command.env} if self.env else command.env,
            user=self.user if command.user is None else command.user,
            cwd=self.folder if command.cwd is None else command.cwd,
        )


def command_defaults(env: Iterable[str] | None, user: str | None, folder: str | None) -> CommandDefaults:
    """What `Env`, `User` and `WorkingDir` of an image's configuration say; what no command could start with is passed over.

    `User` may name a group. One that is not a number is left out: the user's own, by the image's `/etc/passwd`, is taken.
    """
    lines = [line for line in env or () if "=" in line.lstrip("=") and "\0" not in line]
    variables = dict(line.split("=", 1) for line in lines) if sum(map(len, lines)) <= _MOST_BYTES else {}
    name, _, group = (user or "root").partition(":")
    whose = f"{name}:{group}" if name.isdigit() and group.isdigit() else name
    place = posixpath.normpath(posixpath.join("/", folder or "/"))
    return CommandDefaults(variables, whose if "\0" not in whose and whose else "root", place if "\0" not in place else "/")
