"""A throw-away copy of a checkout, with its own view of the checkout's virtual environment."""

import shutil
import subprocess
from pathlib import Path


def make_copy(checkout: Path, copy: Path) -> None:
    """What is committed in the checkout, in a clone whose `.venv` imports the clone; files of packages are hard links."""
    subprocess.run(["git", "clone", "--quiet", "--shared", str(checkout), str(copy)], check=True)
    subprocess.run(["cp", "-al", str(checkout / ".venv"), str(copy / ".venv")], check=True)
    venv = copy / ".venv"
    pointing = [venv / "pyvenv.cfg", *(venv / "bin").iterdir(), *venv.glob("lib/*/site-packages/*.pth")]
    pointing += venv.glob("lib/*/site-packages/sandlot*/*")
    for path in pointing:
        if path.is_file() and not path.is_symlink() and str(checkout).encode() in path.read_bytes():
            _write_apart(path, path.read_bytes().replace(str(checkout).encode(), str(copy).encode()))
    (copy / ".recorded").mkdir()


def _write_apart(path: Path, content: bytes) -> None:
    """Replace a hard link by a file of its own."""
    new = path.with_name(f"{path.name}.new")
    new.write_bytes(content)
    shutil.copymode(path, new)
    new.replace(path)


def apply_patch(copy: Path, patch: Path) -> list[Path] | None:
    """The files that it changed; none if it does not fit any more."""
    done = subprocess.run(["git", "apply", "-C1", "--recount", str(patch)], cwd=copy, capture_output=True, check=False)
    if done.returncode:
        return None
    return changed_files(copy)


def changed_files(copy: Path) -> list[Path]:
    said = subprocess.run(["git", "diff", "--name-only"], cwd=copy, capture_output=True, text=True, check=True).stdout
    files = [copy / line for line in said.splitlines()]
    forget_compiled(files)
    return files


def restore(copy: Path) -> None:
    """As it was cloned."""
    files = changed_files(copy)
    if files:
        subprocess.run(["git", "checkout", "--quiet", "--", *map(str, files)], cwd=copy, check=True)
    forget_compiled(files)


def forget_compiled(files: list[Path]) -> None:
    """Python takes a compiled file for current by second and size, and a mutation is done and undone within a second."""
    for path in files:
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()
