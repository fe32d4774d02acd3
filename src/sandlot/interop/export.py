"""Rollouts for other trainers: JSONL or Parquet as TRL and verl read them.

`sft` has conversations to imitate, `pairs` a better and a worse attempt at the same task by score, `preferences` by what people
said (`sandlot view RUN --reader NAME`), `rollouts` the exact tokens with mask, log-probabilities and reward, `predictions` the
patches of agents in repositories, as SWE-bench reads them. Held-out tasks are left out unless their split is named, to keep test
tasks out of training data. Nothing is re-tokenised.

To a chat template an absent key and a null key are different, so messages keep exactly the keys they have: see `tables.py`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import msgspec

from sandlot.analysis.preferences import agreed_preferences, read_preferences
from sandlot.core.errors import ConfigError
from sandlot.core.images import images_of
from sandlot.core.trace import FileRecord, Message, Tensor, Trace
from sandlot.core.trace_row import TraceRow
from sandlot.core.types import Json, Role, Split
from sandlot.interop.repositories.patches import patch_between
from sandlot.interop.repositories.suite import ROOT
from sandlot.interop.tables import write_rows
from sandlot.model.render.template import as_entries, as_function
from sandlot.model.wire.openai import content_of
from sandlot.model.wire.openai_client import result_images
from sandlot.run.results import Run


class ExportKind(StrEnum):
    """The kinds of export."""

    SFT = "sft"
    PAIRS = "pairs"
    PREFERENCES = "preferences"
    ROLLOUTS = "rollouts"
    PREDICTIONS = "predictions"


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """The file that was written, in numbers."""

    file: str
    kind: str
    rows: int
    skipped: int
    """Rollouts of the split that were left out: without a score, below the lowest reward, with nothing to compare, or (as
    messages) with arrays or malformed calls, which chat templates cannot render."""


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
    if run.manifest.seats:
        raise ConfigError(
            f"`{run.path}` has several agents in each rollout ({', '.join(run.manifest.seats)}), and an export has one "
            "conversation with one reward; take the traces of one seat with `sandlot.seat_trace`"
        )
    rows = [row for row in run.rows if split is None or row.split == split]
    if not rows:
        raise ConfigError(f"`{run.path}` has no rollouts of split `{split}`; name another with `--split`, or `--split all`")
    source = _Source(run, rows, least)
    tools = [as_function(tool) for tool in run.manifest.tools]
    told = {"tools": tools} if tools and kind is not ExportKind.PREDICTIONS else {}
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
            yield {"messages": _conversation(source, trace), **_identity(row)}


def _pair_rows(source: _Source) -> Iterator[Json]:
    tasks: dict[str, list[TraceRow]] = {}
    for row in source.rows:
        if row.score is not None:
            tasks.setdefault(row.task, []).append(row)
    for tried in tasks.values():
        ranked = sorted(tried, key=lambda row: (row.score or 0.0, -row.rollout))
        worse = next((row for row in ranked if _fits_template(source.trace(row))), None)
        better = next((row for row in reversed(ranked) if _fits_template(source.trace(row))), None)
        if worse is None or better is None or worse.score == better.score:
            continue
        source.taken += 2
        yield _pair(source, better, worse)


def _preference_rows(source: _Source) -> Iterator[Json]:
    by_key = {(row.task, row.rollout): row for row in source.rows}
    taken: set[tuple[str, int]] = set()
    for task, first, second in agreed_preferences(read_preferences(source.run.path)):
        better, worse = by_key.get((task, first)), by_key.get((task, second))
        if better is None or worse is None or not all(_fits_template(source.trace(row)) for row in (better, worse)):
            continue
        taken |= {(task, first), (task, second)}
        source.taken = len(taken)
        yield _pair(source, better, worse)


def _pair(source: _Source, better: TraceRow, worse: TraceRow) -> Json:
    prompt, chosen = _split_conversation(_conversation(source, source.trace(better)))
    _, rejected = _split_conversation(_conversation(source, source.trace(worse)))
    return {
        "prompt": prompt,
        "chosen": chosen,
        "rejected": rejected,
        "score_chosen": better.score,
        "score_rejected": worse.score,
        "task": better.task,
    }


def _rollout_rows(source: _Source) -> Iterator[Json]:
    from sandlot.train.rows import rows_of  # noqa: PLC0415 - the other kinds do not need numpy

    for row in source.rows:
        if row.score is None:
            continue
        trace = source.trace(row)
        prompt, completion = _split_conversation(_conversation(source, trace))
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


def _prediction_of(run: Run, trace: Trace) -> dict[str, str] | None:
    """`instance_id`, `model_name_or_path` and `model_patch` of a rollout; None if it left no evidence."""
    if trace.evidence is None:
        return None
    before, after = trace.evidence.initial, trace.evidence.files
    changed = [
        path
        for path in sorted(before.keys() | after.keys())
        if path.startswith(f"{ROOT}/") and before.get(path) != after.get(path)
    ]
    patch = patch_between(_contents(run, before, changed), _contents(run, after, changed))
    return {"instance_id": trace.task, "model_name_or_path": run.manifest.config.model.shown, "model_patch": patch}


def _contents(run: Run, files: Mapping[str, FileRecord], paths: Sequence[str]) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for path in paths:
        blob = files[path].blob if path in files else None
        if blob is None:
            continue
        try:
            found[path.removeprefix(f"{ROOT}/")] = run.reader.blobs.read(blob)
        except KeyError as error:
            raise ConfigError(
                f"the run did not store what `{path}` was before the agent changed it; no patch can be made"
            ) from error
    return found


def _prediction_rows(source: _Source) -> Iterator[Json]:
    for row in source.rows:
        prediction = _prediction_of(source.run, source.trace(row)) if row.score is not None else None
        if prediction is not None:
            source.taken += 1
            yield dict(prediction)


_MAKERS = {
    ExportKind.SFT: _sft_rows,
    ExportKind.PAIRS: _pair_rows,
    ExportKind.PREFERENCES: _preference_rows,
    ExportKind.ROLLOUTS: _rollout_rows,
    ExportKind.PREDICTIONS: _prediction_rows,
}


def _identity(row: TraceRow) -> Json:
    return {"task": row.task, "rollout": row.rollout, "reward": row.score}


# -- messages ----------------------------------------------------------------------------------------------------------


def _conversation(source: _Source, trace: Trace) -> list[Json]:
    """A trace's last path up to the agent's last message, as chat templates read it: arguments are objects, results name tools.

    Messages after that one were never sent to the agent.
    """
    names: dict[str, str] = {}
    shown: list[Json] = []
    for node in trace.path():
        names |= {call.id: call.name for call in node.message.calls}
        shown += [_with_tool_name(entry, names) for entry in _entries(source, node.message)]
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
    """True if a chat template can render it: text and images, and calls with valid arguments."""
    return all(_is_renderable(node.message) for node in trace.path())


def _is_renderable(message: Message) -> bool:
    return not any(isinstance(part, Tensor) for part in message.parts) and not any(call.malformed for call in message.calls)


def _entries(source: _Source, message: Message) -> list[Json]:
    """A message as templates read it. Images are data URIs, as an endpoint gets them; those of results follow as the user's."""
    entries = as_entries(message)
    images = {image.artifact: source.run.reader.blobs.read(image.artifact) for image in images_of(message)}
    if not images:
        return entries
    if message.role is not Role.TOOL:
        return [{**entries[0], "content": msgspec.to_builtins(content_of(message, images))}]
    shown = [part for result in message.results for part in result_images(result, images)]
    return [*entries, {"role": Role.USER.value, "content": msgspec.to_builtins(shown)}]
