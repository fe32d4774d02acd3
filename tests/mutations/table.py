"""The results, one line per room."""

import json
from collections import Counter, defaultdict
from pathlib import Path


def print_table(results: Path, patches: list[Path], equivalent: Path) -> None:
    """In Markdown, as the README has it."""
    told = {one["mutation"]: one for one in map(json.loads, results.read_text().splitlines())} if results.exists() else {}
    same = {line.split()[0].rstrip(":") for line in equivalent.read_text().splitlines() if line} if equivalent.exists() else set()
    rooms: dict[str, Counter[str]] = defaultdict(Counter)
    for patch in patches:
        if patch.stem in told:
            verdict = told[patch.stem]["verdict"]
            room = patch.stem.split("-")[1] if patch.parent.name == "drawn" else "by hand"
            for where in (room, "all"):
                rooms[where]["mutations"] += 1
                rooms[where]["equivalent" if patch.stem in same and verdict != "killed" else verdict] += 1
    columns = ("mutations", "killed", "survived", "unreached", "equivalent", "gone")
    print("| room |", " | ".join(columns), "|\n|---|" + "--:|" * len(columns))  # noqa: T201 - the result
    for room in sorted(rooms, key=lambda room: (room == "all", room == "by hand", room)):
        print(f"| {room} |", " | ".join(str(rooms[room][column] or "") for column in columns), "|")  # noqa: T201
