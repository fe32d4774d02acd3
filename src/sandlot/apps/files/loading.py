"""Seed data for the files app: texts and bytes by path, or a folder of this machine."""

import posixpath
from collections.abc import Mapping
from pathlib import Path

from sandlot.apps.files.tree import make_folder, resolve, write
from sandlot.apps.live import LiveApp
from sandlot.core.errors import ConfigError, ToolError


def load_files(
    app: LiveApp,
    files: Mapping[str, str | bytes],
    *,
    modified: Mapping[str, str] | None = None,
    access: Mapping[str, Mapping[str, str]] | None = None,
) -> None:
    """Fill the tree.

    - `files`: contents by path, such as `{"/files/finance/budget.csv": "..."}`; folders are made.
    - `modified`: when a file was last changed, by path; world time unless given.
    - `access`: who may use a folder: `{"/files/finance": {"ada@example.com": "write", "*": "read"}}`. Without it, all may write.
    """
    for path, content in files.items():
        try:
            make_folder(app, posixpath.dirname(resolve(path)))
            plain = write(app, path, content.encode() if isinstance(content, str) else content)
        except ToolError as error:
            raise ConfigError(f"files: {error}") from error
        if modified and path in modified:
            app.run("UPDATE entry SET created = ?1, modified = ?1 WHERE path = ?2", modified[path], plain)
    for folder, people in (access or {}).items():
        for email, level in people.items():
            if level not in {"read", "write"}:
                raise ConfigError(f"files: `{email}` has the right `{level}` on {folder}; use read or write")
            app.insert("access", folder=resolve(folder), email=email, level=level)


def read_folder(folder: str | Path, under: str = "/files") -> dict[str, bytes]:
    """The files of a folder of this machine, as `load_files` takes them. Links are left out; `ConfigError` if it is no folder."""
    root = Path(folder)
    if not root.is_dir():
        raise ConfigError(f"`{folder}` is not a folder")
    found = sorted(path for path in root.rglob("*") if path.is_file() and not path.is_symlink())
    return {posixpath.join(under, path.relative_to(root).as_posix()): path.read_bytes() for path in found}
