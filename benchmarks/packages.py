"""Repair tasks from published packages: bugs planted in each, and what the golden fix and doing nothing score.

    make bench NAME=packages
    make bench NAME=packages ARGS="toolz==1.2.0 humanize==4.16.0 --limit 20"
    make bench NAME=packages ARGS="sqlparse==0.5.3..0.5.4"

`NAME==VERSION` plants bugs (`sandlot import package`), `NAME==OLD..NEW` takes what changed between releases (`sandlot import
releases`). A row is kept when its package has ended; the table has the last row of each, with its date. `--missing` goes on where
an earlier run was stopped. The environments stay in the cache, in `packages/NAME==VERSION/env`, until they are measured again.
The audit has the layers that need no model, on `--audit` tasks; `--kept` only audits, in the environments of the cache.
"""

import argparse
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import Any

from interop import Kind, audit_cell, audit_of, cell, result_of
from kept import keep_row, kept_rows, with_standing
from peers import CACHE
from report import ChildFailedError, Report, Row, publish

NAME = "packages"
PACKAGES = (
    "toolz==1.2.0",
    "parse==1.22.4",
    "humanize==4.16.0",
    "cachetools==8.0.0",
    "funcy==2.1",
    "sqlparse==0.6.1",
    "wcwidth==0.9.4?WCWIDTH_PYTHON=1",
    "boltons==26.2.0",
    "tabulate==0.10.0",
    "glom==25.12.0",
    "tinydb==4.9.0",
    "marshmallow==4.4.0",
    "python-slugify==9.1.3",
    "click==8.5.1",
    "more-itertools==11.2.1",
    "natsort==8.4.0",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("packages", nargs="*", help="NAME==VERSION or NAME==OLD..NEW")
    parser.add_argument("--limit", type=int, default=100, help="tasks of each package")
    parser.add_argument("--audit", type=int, default=2, help="tasks of each package to audit; 0 for none")
    parser.add_argument("--kept", action="store_true", help="only audit the environments that are in the cache")
    parser.add_argument("--missing", action="store_true", help="only packages that have no row with tasks")
    asked = parser.parse_args()
    for name in asked.packages or PACKAGES:
        if asked.kept:
            if kept_rows(NAME).get(name, {}).get("tasks") and (CACHE / NAME / name / "env").is_dir():
                keep_row(NAME, name, partial(audited_again, name, asked.audit))
        elif not (asked.missing and kept_rows(NAME).get(name, {}).get("tasks")):
            keep_row(NAME, name, partial(measured, name, asked.limit, asked.audit))
    found = kept_rows(NAME)
    rows = [Row(f"`{name}`: tasks", row.get("tasks", 0), columns(row)) for name, row in found.items()]
    packages = {name.partition("==")[0] for name in found}
    table = with_standing(NAME, rows, lambda what: what.lstrip("`").partition("==")[0] not in packages)
    publish(Report(NAME, ours=found, peers={}, ratios={}, rows=table), write_table=True)


def measured(name: str, limit: int, audited: int) -> dict[str, Any]:
    folder = CACHE / NAME / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return result_of(Kind("releases" if ".." in name else "package", name, limit=limit), folder, audited)


def audited_again(name: str, audited: int) -> dict[str, Any]:
    """The row of a package that was measured before, with an audit of the environment that it left."""
    row = kept_rows(NAME)[name]
    try:
        return row | audit_of(Path(sys.executable).with_name("sandlot"), CACHE / NAME / name, audited)
    except ChildFailedError as error:
        return row | {"audit": "did not end", "audit_error": str(error)[-400:]}


def columns(row: dict[str, Any]) -> dict[str, float | str]:
    if "error" in row:
        why = row["error"].rpartition("sandlot: ")[2]
        return {"left out": f"could not be measured: {' '.join(why.split())[-160:]}", "when": row["when"]}
    return {
        "golden": cell(row["golden"]),
        "noop": cell(row["noop"]),
        "left out": "; ".join(row.get("left_out_of", row["left_out"])),
        "audit": audit_cell(row),
        "audit, CPU s": row.get("audit_cpu_s", ""),
        "import, CPU s": row["import_cpu_s"],
        "golden, CPU s": row["golden_cpu_s"],
        "when": row["when"],
    }


if __name__ == "__main__":
    main()
