"""`sandlot list` and `sandlot show`: what there is, and what is in it."""

from pathlib import Path
from typing import Annotated

import typer

from sandlot.cli.options import RUNS, Json, Runs, print_json, run_path, trace_place


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("list")(list_all)
    app.command("show")(show)


def list_all(
    folder: Annotated[Path, typer.Argument(help="Where to look for environments.")] = Path("environments"),
    runs: Runs = RUNS,
    json: Json = False,
) -> None:
    """List environments and runs."""
    from sandlot.env.load import found_environments  # noqa: PLC0415 - help does not need it

    found = list(found_environments(folder))
    made = sorted(path.parent for path in runs.glob("*/manifest.json"))
    if json:
        print_json({"environments": found, "runs": [str(path) for path in made]})
        return
    widest = max((len(each.name) for each in found), default=0)
    for each in found:
        print(f"{each.form:<9}  {each.name:<{widest}}  {each.place}")
    for path in made:
        print(f"{'run':<9}  {path}")
    if not found and not made:
        typer.echo(f"nothing in `{folder}` or `{runs}`; start with `sandlot new NAME`", err=True)


def show(
    what: Annotated[str, typer.Argument(metavar="WHAT", help="A run directory, a trace RUN/TASK/ROLLOUT, or an environment.")],
    runs: Runs = RUNS,
    json: Json = False,
) -> None:
    """Show an environment, a run or a trace.

    One rule: a directory with a manifest.json, or its name below `runs/`, is a run; RUN/TASK/ROLLOUT is a trace; anything else
    is an environment. `show RUN --json` streams one trace a line.
    """
    from sandlot.cli.showing import show_environment, show_run, show_trace  # noqa: PLC0415 - help does not need it

    if _is_run(what, runs):
        show_run(run_path(what, runs), json=json)
    elif _is_run(str(Path(what).parent.parent), runs):
        show_trace(*trace_place(what, runs), json=json)
    elif Path(what).parts[:1] == runs.parts[:1] and not Path(what).exists():  # it can only have been meant as a run
        run_path(str(Path(*Path(what).parts[:2])), runs)
        trace_place(what, runs)
    else:
        show_environment(what, json=json)


def _is_run(what: str, runs: Path) -> bool:
    return any((path / "manifest.json").is_file() for path in (Path(what), runs / what))
