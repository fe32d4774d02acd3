"""Imports point down only. A new part must be given a floor here before it can exist."""

import pytest

from structure import ROOT, Module, module_of

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
    [["web"], ["cli"], ["testing"]],
]
PLACE = {part: (floor, order) for floor, groups in enumerate(FLOORS) for order, parts in enumerate(groups) for part in parts}
TORCH_ALLOWED = ("model/nn/", "model/engine/", "train/", "observe/trackers/tensorboard.py")  # the last: torch brings the writer


DOORS = {"__init__.py", "ports.py", "__main__.py"}
"""The doors hand names out."""
PARTS = sorted(
    entry.name for entry in ROOT.iterdir() if entry.name not in DOORS and (entry.suffix == ".py" or any(entry.rglob("*.py")))
)


@pytest.fixture(params=PARTS)
def part(request) -> str:
    """A part of the package; by itself, because reading all of it takes seconds."""
    return request.param


def modules_of(part: str) -> list[Module]:
    entry = ROOT / part
    return [module_of(path, ROOT) for path in ([entry] if entry.suffix else sorted(entry.rglob("*.py")))]


def test_every_part_has_a_floor():
    assert {part.removesuffix(".py") for part in PARTS} == set(PLACE)


def test_imports_only_point_down(part):
    wrong = []
    place = PLACE[part.removesuffix(".py")]
    for module in modules_of(part):
        assert not module.relative, f"{module.name}: relative import; the layer test must see them all"
        for name in module.imports:
            if not name.startswith("sandlot"):
                continue
            pieces = name.split(".")
            assert len(pieces) > 1, f"{module.name} imports the front door; name the part"
            if pieces[1] in PLACE and pieces[1] != part.removesuffix(".py") and PLACE[pieces[1]] >= place:
                wrong.append(f"{module.name} -> {name}")
    assert not wrong, wrong


def test_nobody_inside_imports_the_front_door(part):
    front = [
        f"{module.name}: {name}"
        for module in modules_of(part)
        for name in module.imports
        if name.startswith("sandlot.") and name.split(".")[1] not in PLACE
    ]
    assert not front, front


def test_torch_stays_in_its_rooms(part):
    wrong = [
        module.name
        for module in modules_of(part)
        if not module.path.relative_to(ROOT).as_posix().startswith(TORCH_ALLOWED)
        and any(name.split(".")[0] == "torch" for name in module.imports)
    ]
    assert not wrong, wrong


def test_pytest_stays_in_its_room(part):
    """It is an extra; nobody who runs an environment needs it. Programs that run inside a sandbox have its own Python."""
    ours = [module for module in modules_of(part) if "inside" not in module.path.parts and part != "testing"]
    wrong = [module.name for module in ours if {"pytest", "_pytest"} & {name.split(".")[0] for name in module.imports}]
    assert not wrong, wrong
