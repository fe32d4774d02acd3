"""An image's defaults for commands: environment variables, user, folder. What a command sets itself takes precedence."""

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from sandlot.core.ports.sandbox import Command

_MOST_BYTES = 128 << 10
"""Limit of an image's environment variables: more would leave no room for a command's own arguments."""


@dataclass(frozen=True, slots=True)
class CommandDefaults:
    """Defaults from an image's configuration."""

    env: Mapping[str, str] = field(default_factory=dict[str, str])
    user: str = "root"
    folder: str = "/"

    def apply(self, command: Command) -> Command:
        """The command with defaults for everything it does not set."""
        if command.user is not None and command.cwd is not None and not self.env:
            return command
        return msgspec.structs.replace(
            command,
            env={**self.env, **command.env} if self.env else command.env,
            user=self.user if command.user is None else command.user,
            cwd=self.folder if command.cwd is None else command.cwd,
        )


def command_defaults(env: Iterable[str] | None, user: str | None, folder: str | None) -> CommandDefaults:
    """Defaults from `Env`, `User` and `WorkingDir` of an image's configuration; invalid values are skipped.

    `User` may contain a group. A group that is not a number is ignored: the user's own group in `/etc/passwd` is used.
    """
    lines = [line for line in env or () if "=" in line.lstrip("=") and "\0" not in line]
    variables = dict(line.split("=", 1) for line in lines) if sum(map(len, lines)) <= _MOST_BYTES else {}
    name, _, group = (user or "root").partition(":")
    whose = f"{name}:{group}" if name.isdigit() and group.isdigit() else name
    place = posixpath.normpath(posixpath.join("/", folder or "/"))
    return CommandDefaults(variables, whose if "\0" not in whose and whose else "root", place if "\0" not in place else "/")
