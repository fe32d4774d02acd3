"""Unified diffs: applied to files, and made from them."""

import difflib
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from sandlot.core.errors import ConfigError

_PATHS = re.compile(r"^(?:(?:---|\+\+\+) (?:[ab]/)?|(?:rename|copy) (?:from|to) )(.+?)(?:\t.*)?$", re.MULTILINE)


def patched_paths(patch: str) -> tuple[str, ...]:
    """The files that a patch touches."""
    return tuple(dict.fromkeys(path for path in _PATHS.findall(patch) if path != "/dev/null"))


def patched(files: Mapping[str, bytes], patch: str, *, reverse: bool = False) -> dict[str, bytes]:
    """The files after a patch. `ConfigError` if it does not apply."""
    if not patch.strip():
        return dict(files)
    touched = patched_paths(patch)
    with tempfile.TemporaryDirectory(prefix="sandlot-patch-") as temporary:
        root = Path(temporary)
        for path in touched:
            if path in files and _is_inside(path):
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_bytes(files[path])
        environ = {"PATH": os.environ.get("PATH", ""), "GIT_CEILING_DIRECTORIES": str(root.parent), "GIT_CONFIG_NOSYSTEM": "1"}
        command = ["git", "apply", "--whitespace=nowarn", *(["-R"] if reverse else []), "-"]
        text = patch if patch.endswith("\n") else f"{patch}\n"
        done = subprocess.run(  # noqa: S603 - git takes no path out of the folder
            command,
            input=text.encode(),
            cwd=root,
            capture_output=True,
            check=False,
            env=environ | {"GIT_CONFIG_GLOBAL": os.devnull},
        )
        if done.returncode:
            raise ConfigError(f"the patch does not apply: {done.stderr.decode(errors='replace').strip()[-300:]}")
        after = {path: content for path, content in files.items() if path not in touched}
        for path in sorted(root.rglob("*")):
            if path.is_file() and not path.is_symlink():
                after[path.relative_to(root).as_posix()] = path.read_bytes()
    return after


def _is_inside(path: str) -> bool:
    return not path.startswith("/") and ".." not in path.split("/")


def patch_between(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> str:
    """A diff of text files that `git apply` takes. Files that are not UTF-8 text are left out."""
    pieces: list[str] = []
    for path in sorted(before.keys() | after.keys()):
        old, new = before.get(path), after.get(path)
        if old == new:
            continue
        try:
            pieces.append(_piece(path, None if old is None else old.decode(), None if new is None else new.decode()))
        except UnicodeDecodeError:
            continue
    return "".join(pieces)


def _piece(path: str, old: str | None, new: str | None) -> str:
    head = f"diff --git a/{path} b/{path}\n"
    head += "new file mode 100644\n" if old is None else "deleted file mode 100644\n" if new is None else ""
    names = ("/dev/null" if old is None else f"a/{path}", "/dev/null" if new is None else f"b/{path}")
    lines = difflib.unified_diff(_lines(old or ""), _lines(new or ""), *names, n=3)
    return head + "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def _lines(text: str) -> list[str]:
    """Lines as git counts them: only a line feed ends one."""
    *whole, last = text.split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])
