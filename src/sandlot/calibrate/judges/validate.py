"""Validate a judge model on rubric examples, the evidence of a run, and items people labelled. `sandlot judge` calls this."""

from collections.abc import Callable
from pathlib import Path

from sandlot.calibrate.judges.gates import Gates, Validation, judge_gates
from sandlot.calibrate.judges.items import JudgedItem, checks_of, example_items, labelled_items, run_items
from sandlot.calibrate.judges.judge import Probing, Quality, measure_judge
from sandlot.core.errors import ConfigError
from sandlot.core.rubric import JudgeCheck
from sandlot.wiring.config import ModelConfig, judge_config
from sandlot.wiring.models import open_panel

_MAX_RUN_ITEMS = 500
"""Maximum number of items taken from a run."""


async def validate_judge(
    what: str | Path,
    judge: str | ModelConfig,
    *,
    labels: Path | None = None,
    probing: Probing | None = None,
    gates: Gates | None = None,
    begin: Callable[[int, int], None] = lambda _items, _labelled: None,
) -> Validation[Quality]:
    """Ask a judge about everything there is in `what`: a rubric, an environment, a run directory, or labels (`.jsonl`).

    `begin` is called with the number of items and how many of them people labelled, before the first question.
    """
    config = judge_config(judge) if isinstance(judge, str) else judge
    assert config is not None, "a judge is named"
    asking = probing or Probing()
    items = await _items_of(Path(what), labels)
    begin(len(items), sum(bool(item.labels) for item in items))
    async with open_panel(config, asking.repeats) as panel:
        quality = await measure_judge(panel, items, asking, panel[0].ask_several)
    return Validation(quality, judge_gates(quality, gates or Gates()))


async def _items_of(what: Path, labels: Path | None) -> list[JudgedItem]:
    """Everything there is to ask about: examples in rubrics, the evidence of a run, what people labelled."""
    items: list[JudgedItem] = []
    checks: dict[str, JudgeCheck] = {}
    if what.suffix == ".jsonl":
        items += labelled_items(what, {})
    elif (what / "manifest.json").is_file():
        items += [item async for item in run_items(what, _MAX_RUN_ITEMS)]
        checks = {item.check: JudgeCheck(id=item.check, prompt=item.question, choices=item.choices) for item in items}
    else:
        checks = checks_of(str(what))
        items += example_items(checks)
    items += labelled_items(labels, checks) if labels else []
    if not items:
        judged = f"its judge checks ({', '.join(checks)}) have no examples" if checks else "it has no judge checks"
        raise ConfigError(f"nothing to ask about `{what}`: {judged}; give `--labels FILE`, or name a run")
    return items
