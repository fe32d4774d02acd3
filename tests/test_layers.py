"""Imports point down only. A new part must be given a floor here before it can exist."""

import ast
from functools import cache
from pathlib import Path

from sandlot.core.syntax import parse_python

ROOT = Path(__file__).parent.parent / "src" / "sandlot"

# One line a floor, lowest first. Within a floor, a part in a later group may import one in an earlier group (`a < b`);
# parts of the same group do not know each other.
FLOORS = [
    [["core"]],
    [["checks"]],
    [["sandbox", "tools", "grade", "model", "store", "observe"]],
    [["apps", "harness"]],
    [["env"]],
    [["wiring"], ["rollout"]],
    [["run"], ["analysis"]],
    [["train", "audit", "calibrate", "serve"], ["interop"]],
    [["web"], ["cli"]],
]
PLACE = {part: (floor, order) for floor, groups in enumerate(FLOORS) for order, parts in enumerate(groups) for part in parts}
TORCH_ALLOWED = ("model/nn/", "model/engine/", "train/", "observe/trackers/tensorboard.py")  # the last: torch brings the writer


def part_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@cache
def imports_of(path: Path) -> list[str]:
    names: list[str] = []
    for node in ast.walk(parse_python(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import; the layer test must see them all"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def source_files() -> list[Path]:
    """All but the doors, which hand names out, and `__main__`."""
    doors = {ROOT / "__init__.py", ROOT / "ports.py", ROOT / "__main__.py"}
    return [path for path in ROOT.rglob("*.py") if path not in doors]


def test_every_part_has_a_floor():
    assert {part_of(path) for path in source_files()} <= set(PLACE)


def test_imports_only_point_down():
    wrong = []
    for path in source_files():
        for name in imports_of(path):
            if not name.startswith("sandlot"):
                continue
            pieces = name.split(".")
            assert len(pieces) > 1, f"{path} imports the front door; name the part"
            target = pieces[1]
            if target in PLACE and target != part_of(path) and PLACE[target] >= PLACE[part_of(path)]:
                wrong.append(f"{path.relative_to(ROOT)} -> {name}")
    assert not wrong, wrong


def test_nobody_inside_imports_the_front_door():
    front = [
        f"{path}: {name}"
        for path in source_files()
        for name in imports_of(path)
        if name.startswith("sandlot.") and name.split(".")[1] not in PLACE
    ]
    assert not front, front


def test_torch_stays_in_its_rooms():
    wrong = [
        str(path)
        for path in source_files()
        if not path.relative_to(ROOT).as_posix().startswith(TORCH_ALLOWED)
        and any(name.split(".")[0] == "torch" for name in imports_of(path))
    ]
    assert not wrong, wrong
