"""Draw the mutations: `PYTHONPATH=tests python -m mutations.draw` writes `drawn/NNN-room-file.patch`.

A room is a folder below `src/sandlot`, and the files beside the folders are one more. Every room gets three mutations, the others
are spread in proportion to the rooms' lines. Within a room an operator is drawn first, all alike, then one of its places, and no
function is taken twice. Programs for the inside of a sandbox (`inside/`) run on another Python and are left out, as is the
sandbox's C.
The same seed on the same tree gives the same patches.
"""

import argparse
import difflib
from collections import defaultdict
from pathlib import Path
from random import Random

from mutations.operators import Candidate, candidates_of

SEED = 20261119
NUMBER = 120
_AT_LEAST = 3
_HERE = Path(__file__).parent
_PLACE = Path("src/sandlot")


def main() -> None:
    """Replace the drawn patches by those of this tree."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--checkout", type=Path, default=_HERE.parent.parent)
    words.add_argument("--into", type=Path, default=_HERE / "drawn")
    given = words.parse_args()
    for old in given.into.glob("*.patch"):
        old.unlink()
    given.into.mkdir(exist_ok=True)
    for name, patch in drawn_patches(given.checkout, SEED, NUMBER).items():
        (given.into / name).write_text(patch)


def drawn_patches(checkout: Path, seed: int, number: int) -> dict[str, str]:
    """File name -> patch."""
    rooms = _rooms_of(checkout / _PLACE)
    chance = Random(seed)
    patches: dict[str, str] = {}
    for room, share in _shares_of(rooms, number).items():
        for path, one in _chosen(rooms[room], share, chance):
            name = f"{len(patches) + 1:03}-{room}-{path.stem.strip('_')}.patch"
            patches[name] = patch_of(path.read_bytes(), one, path.relative_to(checkout))
    return patches


def patch_of(source: bytes, one: Candidate, path: Path) -> str:
    """The edit as a diff, below one line that says what it is."""
    old, new = source.decode().splitlines(keepends=True), one.applied(source).decode().splitlines(keepends=True)
    diff = difflib.unified_diff(old, new, f"a/{path}", f"b/{path}")
    return f"{one.operator} in `{one.function}`, {path}:{one.line}\n" + "".join(diff)


def _rooms_of(root: Path) -> dict[str, list[Path]]:
    rooms: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        if "inside" not in parts:
            rooms[parts[0] if len(parts) > 1 else "top"].append(path)
    return dict(sorted(rooms.items()))


def _shares_of(rooms: dict[str, list[Path]], number: int) -> dict[str, int]:
    """How many mutations each room gets; the largest remainders are rounded up."""
    lines = {room: sum(path.read_bytes().count(b"\n") for path in paths) for room, paths in rooms.items()}
    spread = number - _AT_LEAST * len(rooms)
    exact = {room: spread * count / sum(lines.values()) for room, count in lines.items()}
    shares = {room: _AT_LEAST + int(share) for room, share in exact.items()}
    for room in sorted(exact, key=lambda room: int(exact[room]) - exact[room])[: number - sum(shares.values())]:
        shares[room] += 1
    return shares


def _chosen(paths: list[Path], share: int, chance: Random) -> list[tuple[Path, Candidate]]:
    places: dict[str, list[tuple[Path, Candidate]]] = defaultdict(list)
    for path in paths:
        for one in candidates_of(path.read_bytes()):
            places[one.operator].append((path, one))
    taken: dict[tuple[Path, str], tuple[Path, Candidate]] = {}
    while len(taken) < share and places:
        operator = chance.choice(sorted(places))
        left = [(path, one) for path, one in places[operator] if (path, one.function) not in taken]
        if not left:
            del places[operator]
            continue
        path, one = chance.choice(left)
        taken[path, one.function] = (path, one)
    return list(taken.values())


if __name__ == "__main__":
    main()
