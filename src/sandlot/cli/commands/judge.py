"""`sandlot judge`: validate a judge."""

from pathlib import Path
from typing import Annotated

import typer

from sandlot.cli.options import RUNS, Json, Runs, app, print_finished

_Option = typer.Option


@app.command("judge")
def _judge(
    what: Annotated[
        str,
        typer.Argument(
            metavar="WHAT", help="What it judges: a rubric (`.json`), an environment, a run, or labels alone (`.jsonl`)."
        ),
    ],
    judge: Annotated[
        str, _Option("--judge", metavar="MODEL", help="The judge: `openai:NAME@URL`, `smollm2`, `rookie`, `hf:FOLDER`.")
    ],
    labels: Annotated[
        Path | None,
        _Option("--labels", metavar="FILE", help="Labels by people, JSON Lines: `check` or `question`, `view`, `labels`."),
    ] = None,
    repeats: Annotated[int, _Option("--repeats", help="How often each question is asked unchanged.")] = 5,
    items: Annotated[int, _Option("--items", help="Maximum number of items to probe; every labelled item is asked once.")] = 50,
    batch: Annotated[
        int, _Option("--batch", help="Criteria per call when several are asked at once; 1 skips that comparison.")
    ] = 5,
    temperature: Annotated[float, _Option("--temperature", help="Sampling temperature; use the one of your runs.")] = 0.0,
    max_tokens: Annotated[int | None, _Option("--max-tokens", help="Maximum tokens per reply.")] = None,
    at_once: Annotated[int, _Option("--at-once", help="Maximum number of questions in flight.")] = 16,
    max_flips: Annotated[
        float, _Option("--max-flips", help="Maximum share of verdicts that may change when the same item is asked again.")
    ] = 0.05,
    kappa: Annotated[float, _Option("--kappa", help="Minimum agreement with people (Cohen's kappa).")] = 0.6,
    runs: Runs = RUNS,
    json: Json = False,
) -> None:
    """Validate a judge model.

    Checks that it is consistent, unbiased and agrees with people. It gets the same questions again, with the choices in
    another order, with padded answers, several in one call, with canaries whose answer is known, and about items that people
    labelled. Exit code 1 if a gate fails, 3 if too few items are labelled.
    """
    from sandlot.calibrate.judges.gates import Gates  # noqa: PLC0415 - help does not need it
    from sandlot.calibrate.judges.judge import Probing  # noqa: PLC0415 - as above
    from sandlot.cli.views.judge import judge_watched  # noqa: PLC0415 - as above
    from sandlot.core.ports.model import Sampling  # noqa: PLC0415 - as above
    from sandlot.wiring.config import ModelConfig  # noqa: PLC0415 - as above

    below = runs / what
    finished = judge_watched(
        below if (below / "manifest.json").is_file() else Path(what),
        ModelConfig(spec=judge, sampling=Sampling(temperature=temperature, max_tokens=max_tokens)),
        labels=labels,
        probing=Probing(repeats=repeats, most=items, at_once=at_once, batch=batch),
        gates=Gates(flips=max_flips, kappa=kappa),
        quiet=json,
    )
    print_finished(lambda: finished, json=json)
