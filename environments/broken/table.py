"""The table in README.md, from the folders' `defect.toml` files and the findings of the last sweep (`found.json`).

`sweep.py` writes both; `python environments/broken/table.py` updates only the table.
"""

import json
import tomllib
from pathlib import Path

HERE = Path(__file__).parent
FOUND = HERE / "found.json"
MARK = "<!-- table -->"
NEEDS = {"judge": "a judge: `{judge}` of `judges.py`", "reference": "`{reference}`", "manifest": "`{manifest}`"}


def table() -> str:
    """One row per folder, ordered by code."""
    rows = [(tomllib.loads(path.read_text(encoding="utf-8")), path.parent.name) for path in HERE.glob("*/defect.toml")]
    lines = [
        "| code | folder | what is planted | layer that should find it | the auditor also needs | found by |",
        "|---|---|---|---|---|---|",
    ]
    found: dict[str, str] = json.loads(FOUND.read_text(encoding="utf-8")) if FOUND.exists() else {}
    for said, name in sorted(rows, key=lambda row: (row[0]["code"], row[1])):
        given = NEEDS[said["needs"]].format(**said) if "needs" in said else ""
        lines.append(
            f"| {said['code']} | [{name}]({name}) | {said['what']} | {said['layer']} | {given} | {found.get(name, '')} |"
        )
    return "\n".join(lines)


def page() -> str:
    """The page with an updated table."""
    head, _, _ = (HERE / "README.md").read_text(encoding="utf-8").partition(MARK)
    return f"{head}{MARK}\n\n{table()}\n"


def write(found: dict[str, str]) -> None:
    """Add a sweep's findings to those of earlier ones, and update the page."""
    before: dict[str, str] = json.loads(FOUND.read_text(encoding="utf-8")) if FOUND.exists() else {}
    found = {name: probe for name, probe in {**before, **found}.items() if (HERE / name).is_dir()}
    FOUND.write_text(json.dumps(found, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    (HERE / "README.md").write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    (HERE / "README.md").write_text(page(), encoding="utf-8")
