"""Test files that are near a mutated module, found without running anything: those that name it, of its own room first."""

import re
from pathlib import Path

_MOST = 12


def near_files(copy: Path, patch: str) -> list[str]:
    """Up to a dozen files, the most likely first; of the whole room if no file names the module."""
    module = _module_of(patch)
    room = f"tests/unit/{module.split('.')[1]}"
    rank: dict[str, tuple[bool, bool, int]] = {}
    for file in [*sorted((copy / "tests").rglob("test_*.py")), *sorted((copy / "environments").rglob("test_*.py"))]:
        name = str(file.relative_to(copy))
        if "/system/" in name or "/foreign/" in name:
            continue
        text = file.read_text()
        if re.search(rf"\b{re.escape(module)}\b", text):
            own = file.stem.removeprefix("test_") in module
            rank[name] = (not name.startswith(room), not own, text.count("\n"))
    return sorted(rank, key=rank.__getitem__)[:_MOST] or ([room] if (copy / room).is_dir() else [])


def _module_of(patch: str) -> str:
    """`sandlot.run.summary` of the first file that a patch changes."""
    path = next(line.removeprefix("+++ b/src/") for line in patch.splitlines() if line.startswith("+++ b/src/"))
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
