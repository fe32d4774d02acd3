"""Rollouts for other trainers: JSONL or Parquet as TRL and verl read them.

`sft` has conversations to imitate, `pairs` a better and a worse attempt at the same task, `rollouts` the exact tokens with mask,
log-probabilities and reward. Held-out tasks are left out unless their split is named, to keep test tasks out of training
data. Nothing is re-tokenised.

To a chat template an absent key and a null key are different, so messages keep exactly the keys they have: see `tables.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.trace import ImagePart, Message, Tensor, Trace, TraceRow
from sandlot.core.types import Json, Role, Split
from sandlot.interop.tables import write_rows
from sandlot.model.render.template import as_entries, as_function
from sandlot.run.results import Run


class ExportKind(StrEnum):
    """The kinds of export."""

    SFT = "sft"
    PAIRS = "pairs"
    ROLLOUTS = "rollouts"


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """The file that was written, in numbers."""

    file: str
    kind: str
    rows: int
    skipped: int
    """Rollouts of the split that were left out: without a score, below the lowest reward, with nothing to compare, or (as
    messages) with images or malformed calls, which chat templates cannot render."""


@dataclass(slots=True)
class _Source:
    """The rollouts of a run that may be exported, and how many were."""

    run: Run
    rows: list[TraceRow]
    least: float
    """The lowest reward that `sft` imitates."""
    taken: int = 0

    def trace(self, row: TraceRow) -> Trace:
        """The trace of one of the rows."""
        return self.run.trace(row.task, row.rollout)


def export_run(
    run: Run, kind: ExportKind, out: Path | None = None, *, split: Split | None = Split.TRAIN, least: float = 1.0
) -> Exported:
    """Write a run's rollouts. `split` None is all of them; `least` is the lowest reward that `sft` imitates."""
    file = out or run.path / "exports" / f"{kind}.parquet"
    if file.suffix not in {".jsonl", ".parquet"}:
        raise ConfigError(f"`{file}` has an unknown format; end its name with .jsonl or .parquet")
    rows = [row for row in run.rows if split is None or row.split == split]
    if not rows:
        raise ConfigError(f"`{run.path}` has no rollouts of split `{split}`; name another with `--split`, or `--split all`")
    source = _Source(run, rows, least)
    tools = [as_function(tool) for tool in run.manifest.tools]
    told = {"tools": tools} if tools else {}
    number = write_rows(file, ({**row, **told} for row in _MAKERS[kind](source)))
    return Exported(file=str(file), kind=kind.value, rows=number, skipped=len(rows) - source.taken)


# -- rows --------------------------------------------------------------------------------------------------


def _sft_rows(source: _Source) -> Iterator[Json]:
    for row in source.rows:
        if row.score is None or row.score < source.least:
            continue
        trace = source.trace(row)
        if _fits_template(trace):
            source.taken += 1
            yield {"messages": _conversation(trace), **_identity(row)}


def _pair_rows(source: _Source) -> Iterator[Json]:
    tasks: dict[str, list[TraceRow]] = {}
    for row in source.rows:
        if row.score is not None:
            tasks.setdefault(row.task, []).append(row)
    for task, tried in tasks.items():
        ranked = sorted(tried, key=lambda row: (row.score or 0.0, -row.rollout))
        worse = next((row for row in ranked if _fits_template(source.trace(row))), None)
        better = next((row for row in reversed(ranked) if _fits_template(source.trace(row))), None)
        if worse is None or better is None or worse.score == better.score:
            continue
        source.taken += 2
        prompt, chosen = _split_conversation(_conversation(source.trace(better)))
        _, rejected = _split_conversation(_conversation(source.trace(worse)))
        yield {
            "prompt": prompt,
            "chosen": chosen,
            "rejected": rejected,
            "score_chosen": better.score,
            "score_rejected": worse.score,
            "task": task,
        }


def _rollout_rows(source: _Source) -> Iterator[Json]:
    from sandlot.train.rows import rows_of  # noqa: PLC0415 - the other kinds do not need numpy

    for row in source.rows:
        if row.score is None:
            continue
        trace = source.trace(row)
        prompt, completion = _split_conversation(_conversation(trace))
        source.taken += 1
        for path in rows_of(trace):
            yield {
                "prompt": prompt,
                "completion": completion,
                "ids": path.ids.tolist(),
                "mask": path.trained.astype(int).tolist(),
                "logprobs": path.logprobs.tolist(),
                "versions": path.versions.tolist(),
                **_identity(row),
            }


_MAKERS = {ExportKind.SFT: _sft_rows, ExportKind.PAIRS: _pair_rows, ExportKind.ROLLOUTS: _rollout_rows}


def _identity(row: TraceRow) -> Json:
    return {"task": row.task, "rollout": row.rollout, "reward": row.score}


# -- messages ----------------------------------------------------------------------------------------------------------


def _conversation(trace: Trace) -> list[Json]:
    """A trace's last path up to the agent's last message, as chat templates read it: arguments are objects, results name tools.

    Messages after that one were never sent to the agent.
    """
    names: dict[str, str] = {}
    shown: list[Json] = []
    for node in trace.path():
        names |= {call.id: call.name for call in node.message.calls}
        shown += [_with_tool_name(entry, names) for entry in as_entries(node.message)]
    spoken = [place for place, entry in enumerate(shown) if entry["role"] == Role.ASSISTANT]
    return shown[: spoken[-1] + 1] if spoken else shown


def _with_tool_name(entry: Json, names: dict[str, str]) -> Json:
    if entry["role"] != Role.TOOL:
        return entry
    name = names.get(entry["tool_call_id"])
    return {**entry, "name": name} if name is not None else entry


def _split_conversation(messages: list[Json]) -> tuple[list[Json], list[Json]]:
    """The messages before the agent's first one, and those from there on."""
    first = next((place for place, message in enumerate(messages) if message["role"] == Role.ASSISTANT), len(messages))
    return messages[:first], messages[first:]


def _fits_template(trace: Trace) -> bool:
    """True if a chat template can render it: text, and calls with valid arguments."""
    return all(_is_text(node.message) for node in trace.path())


def _is_text(message: Message) -> bool:
    seen: list[Any] = [*message.parts, *(image for result in message.results for image in result.images)]
    return not any(isinstance(part, ImagePart | Tensor) for part in seen) and not any(call.malformed for call in message.calls)
