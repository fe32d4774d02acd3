"""Which mutations do the tests find? `PYTHONPATH=tests python -m mutations.measure CHECKOUT` measures what is committed there.

First the whole suite runs once in a throw-away copy, where every mutated place says which test came there, and every test what it
costs. Then each mutation is done in the copy, and the tests that reach it run, the cheapest first, until one fails or a bound of
CPU-seconds is spent. What is known is in `RESULTS`, a line of JSON per mutation: the same command continues.

A patch may name its tests itself, in a line `tests: PATH PATH` above the diff, where a place cannot say that it was reached (the
sandbox's C, constants of a module).
"""

import argparse
import json
from pathlib import Path

from mutations.copies import apply_patch, make_copy, restore
from mutations.kill import Killing, verdict_of
from mutations.places import add_calls, changed_line
from mutations.running import run_suite
from mutations.table import print_table

HERE = Path(__file__).parent


def main() -> None:
    """Both measurements, and the table."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("checkout", type=Path)
    words.add_argument("--results", type=Path, default=HERE / "after.jsonl")
    words.add_argument(
        "--work", type=Path, help="folder for the copy and what was recorded; default: CHECKOUT beside, `-mutated`"
    )
    words.add_argument("--only", default="", help="mutations with this in their names")
    words.add_argument("--step", choices=["reach", "kill", "table"], help="this step alone")
    words.add_argument("--bound", type=float, default=60.0, help="CPU-seconds of tests for a mutation")
    words.add_argument(
        "--near", action="store_true", help="do not run the suite first: try the test files that name what is mutated"
    )
    given = words.parse_args()
    checkout = given.checkout.resolve()
    work = (given.work or checkout.with_name(f"{checkout.name}-mutated")).resolve()
    patches = [path for path in sorted(HERE.glob("*/*.patch")) if given.only in path.name]
    if given.step in {None, "reach"} and not given.near and not (work / "reached.tsv").exists():
        reach(checkout, work, patches)
    if given.step in {None, "kill"}:
        kill(patches, given.results, Killing(_copied(checkout, work), work, given.bound, near=given.near))
    print_table(given.results, patches, HERE / "equivalent.txt")


def reach(checkout: Path, work: Path, patches: list[Path]) -> None:
    """Run the suite once; `reached.tsv` and `costs.jsonl` in the work folder are what it wrote."""
    copy = work / "reach"
    make_copy(checkout, copy)
    places: dict[Path, dict[str, int]] = {}
    for patch in patches:
        new = {path: path.read_text() for path in apply_patch(copy, patch) or [] if path.suffix == ".py"}
        restore(copy)
        for path, text in new.items():
            places.setdefault(path, {})[patch.stem] = changed_line(path.read_text(), text)
    for path, lines in places.items():
        if silent := add_calls(path, lines):
            print("cannot say that they were reached:", *silent)  # noqa: T201 - the result
    run_suite(copy)
    for name in ("costs.jsonl", "reached.tsv"):
        (copy / ".recorded" / name).rename(work / name)


def _copied(checkout: Path, work: Path) -> Path:
    copy = work / "kill"
    if not copy.exists():
        work.mkdir(parents=True, exist_ok=True)
        make_copy(checkout, copy)
    restore(copy)
    return copy


def kill(patches: list[Path], results: Path, killing: Killing) -> None:
    """Do each mutation that has no result yet. A test that fails without a mutation too has killed nothing."""
    while True:
        known = _known(results)
        for patch in patches:
            if patch.stem not in known:
                verdict = verdict_of(patch, killing)
                print(json.dumps(verdict), flush=True)  # noqa: T201
                with results.open("a") as file:
                    file.write(json.dumps(verdict) + "\n")
        known = _known(results)
        killers = {
            told["by"]: name
            for name, told in known.items()
            if told["verdict"] == "killed" and not told["by"].startswith("pytest ended")
        }
        wrong = killing.failing(sorted(killers))
        if not wrong:
            return
        print("fail without a mutation too:", *wrong)  # noqa: T201
        killing.distrust(wrong)
        left = [told for told in known.values() if told.get("by") not in wrong]
        results.write_text("".join(json.dumps(told) + "\n" for told in left))


def _known(results: Path) -> dict[str, dict[str, str]]:
    lines = results.read_text().splitlines() if results.exists() else []
    return {told["mutation"]: told for told in map(json.loads, lines)}


if __name__ == "__main__":
    main()
