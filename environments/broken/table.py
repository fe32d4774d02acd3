"""Rewrites the table in README.md from the folders' `defect.toml` files: `python environments/broken/table.py`."""

import tomllib
from pathlib import Path

HERE = Path(__file__).parent
MARK = "<!-- table -->"
NEEDS = {"judge": "a judge: `{judge}` of `judges.py`", "reference": "`{reference}`", "manifest": "`{manifest}`"}


def table() -> str:
    """One row a folder, in the order of the codes."""
    rows = [(tomllib.loads(path.read_text(encoding="utf-8")), path.parent.name) for path in HERE.glob("*/defect.toml")]
    lines = [
        "| code | folder | what is planted | layer that should find it | the auditor is also given |",
        "|---|---|---|---|---|",
    ]
    for said, name in sorted(rows, key=lambda row: (row[0]["code"], row[1])):
        given = NEEDS[said["needs"]].format(**said) if "needs" in said else ""
        lines.append(f"| {said['code']} | [{name}]({name}) | {said['what']} | {said['layer']} | {given} |")
    return "\n".join(lines)


def page() -> str:
    """The page with its table renewed."""
    head, _, _ = (HERE / "README.md").read_text(encoding="utf-8").partition(MARK)
    return f"{head}{MARK}\n\n{table()}\n"


if __name__ == "__main__":
    (HERE / "README.md").write_text(page(), encoding="utf-8")
