# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false
"""Rollouts for other trainers: JSONL or Parquet as TRL and verl read them.

`sft` has conversations worth imitating, `pairs` a better and a worse attempt at the same task, `rollouts` the exact tokens with
mask, log-probabilities and reward. Held-out tasks stay out unless they are asked for by name: what is tested on is not trained
on, here or elsewhere. Nothing is re-tokenised.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from sandlot.errors import ConfigError
from sandlot.run.results import Run
from sandlot.trace import Message, Reasoning, ToolCall, Trace, TraceRow
from sandlot.types import Role, Split

if TYPE_CHECKING:
    import pyarrow as pa

BATCH = 256
"""Rows written together."""


class Kind(StrEnum):
    """What is exported."""

    SFT = "sft"
    PAIRS = "pairs"
    ROLLOUTS = "rollouts"


class Exported(msgspec.Struct, frozen=True, kw_only=True):
    """What was written."""

    file: str
    kind: str
    rows: int
    skipped: int
    """Rollouts of the split that did not qualify: without a score, below the mark, or with nothing to compare."""


def export_run(
    run: Run, kind: Kind, out: Path | None = None, *, split: Split | None = Split.TRAIN, least: float = 1.0
) -> Exported:
    """Write a run's rollouts. `split` None is all of them; `least` is the lowest reward that `sft` imitates."""
    file = out or run.path / "exports" / f"{kind}.parquet"
    if file.suffix not in {".jsonl", ".parquet"}:
        raise ConfigError(f"`{file}` ends with neither .jsonl nor .parquet, so its format is not known")
    rows = [row for row in run.rows if split is None or row.split == split]
    if not rows:
        raise ConfigError(f"`{run.path}` has no rollouts of split `{split}`; name another with `--split`, or `--split all`")
    taken = {"count": 0}
    made = _MAKERS[kind](run, rows, least, taken)
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.draft")
    number = _write_jsonl(draft, made) if file.suffix == ".jsonl" else _write_parquet(draft, made, _schema(kind))
    draft.replace(file)
    return Exported(file=str(file), kind=kind.value, rows=number, skipped=len(rows) - taken["count"])


# -- what is in a row --------------------------------------------------------------------------------------------------


def _imitated(run: Run, rows: list[TraceRow], least: float, taken: dict[str, int]) -> Iterator[dict[str, Any]]:
    for row in rows:
        if row.score is not None and row.score >= least:
            taken["count"] += 1
            yield {"messages": conversation(run.trace(row.task, row.rollout)), **_identity(row)}


def _preferred(run: Run, rows: list[TraceRow], least: float, taken: dict[str, int]) -> Iterator[dict[str, Any]]:  # noqa: ARG001 - any two that differ will do
    tasks: dict[str, list[TraceRow]] = {}
    for row in rows:
        if row.score is not None:
            tasks.setdefault(row.task, []).append(row)
    for task, tried in tasks.items():
        ranked = sorted(tried, key=lambda row: (row.score or 0.0, -row.rollout))
        worse, better = ranked[0], ranked[-1]
        if worse.score == better.score:
            continue
        taken["count"] += 2
        prompt, chosen = divided(conversation(run.trace(task, better.rollout)))
        _, rejected = divided(conversation(run.trace(task, worse.rollout)))
        yield {
            "prompt": prompt,
            "chosen": chosen,
            "rejected": rejected,
            "score_chosen": better.score,
            "score_rejected": worse.score,
            "task": task,
        }


def _exact(run: Run, rows: list[TraceRow], least: float, taken: dict[str, int]) -> Iterator[dict[str, Any]]:  # noqa: ARG001 - bad ones teach too
    from sandlot.train.rows import rows_of  # noqa: PLC0415 - numpy is not paid for by the other kinds

    for row in rows:
        if row.score is None:
            continue
        trace = run.trace(row.task, row.rollout)
        prompt, completion = divided(conversation(trace))
        taken["count"] += 1
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


_MAKERS = {Kind.SFT: _imitated, Kind.PAIRS: _preferred, Kind.ROLLOUTS: _exact}


def _identity(row: TraceRow) -> dict[str, Any]:
    return {"task": row.task, "rollout": row.rollout, "reward": row.score}


def conversation(trace: Trace) -> list[dict[str, Any]]:
    """A trace's last path as chat messages, the way OpenAI, TRL and chat templates write them."""
    return [shown for node in trace.path() for shown in _shown(node.message)]


def divided(messages: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What was given before the agent first spoke, and everything from there on."""
    first = next((place for place, message in enumerate(messages) if message["role"] == Role.ASSISTANT), len(messages))
    return messages[:first], messages[first:]


def _shown(message: Message) -> Iterator[dict[str, Any]]:
    if message.results:
        for result in message.results:
            yield {"role": "tool", "content": result.text, "tool_call_id": result.call}
        return
    shown: dict[str, Any] = {"role": message.role.value, "content": message.text}
    thoughts = "".join(part.text for part in message.parts if isinstance(part, Reasoning))
    if thoughts:
        shown["reasoning_content"] = thoughts
    if message.calls:
        shown["tool_calls"] = [_call(call) for call in message.calls]
    yield shown


def _call(call: ToolCall) -> dict[str, Any]:
    arguments = call.malformed or msgspec.json.encode(call.arguments).decode()
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


# -- files -------------------------------------------------------------------------------------------------------------


def _write_jsonl(file: Path, rows: Iterator[dict[str, Any]]) -> int:
    number = 0
    with file.open("wb") as out:
        for row in rows:
            out.write(msgspec.json.encode(row) + b"\n")
            number += 1
    return number


def _write_parquet(file: Path, rows: Iterator[dict[str, Any]], schema: "pa.Schema") -> int:
    import pyarrow as pa  # noqa: PLC0415 - JSONL does not need it
    import pyarrow.parquet as pq  # noqa: PLC0415 - as above

    number = 0
    with ExitStack() as stack:
        writer: Any = stack.enter_context(pq.ParquetWriter(file, schema))
        batch: list[dict[str, Any]] = []
        for row in rows:
            batch.append(row)
            number += 1
            if len(batch) == BATCH:
                writer.write_table(pa.Table.from_pylist(batch, schema=schema))
                batch = []
        writer.write_table(pa.Table.from_pylist(batch, schema=schema))
    return number


def _schema(kind: Kind) -> "pa.Schema":
    import pyarrow as pa  # noqa: PLC0415 - as above

    function = pa.struct([("name", pa.string()), ("arguments", pa.string())])
    call = pa.struct([("id", pa.string()), ("type", pa.string()), ("function", function)])
    message = pa.struct(
        [
            ("role", pa.string()),
            ("content", pa.string()),
            ("reasoning_content", pa.string()),
            ("tool_calls", pa.list_(call)),
            ("tool_call_id", pa.string()),
        ]
    )
    messages, ints = pa.list_(message), pa.list_(pa.int32())
    identity = [("task", pa.string()), ("rollout", pa.int32()), ("reward", pa.float64())]
    columns: dict[Kind, list[tuple[str, Any]]] = {
        Kind.SFT: [("messages", messages), *identity],
        Kind.PAIRS: [
            *((name, messages) for name in ("prompt", "chosen", "rejected")),
            *((name, pa.float64()) for name in ("score_chosen", "score_rejected")),
            ("task", pa.string()),
        ],
        Kind.ROLLOUTS: [
            *((name, messages) for name in ("prompt", "completion")),
            ("ids", ints),
            ("mask", pa.list_(pa.int8())),
            ("logprobs", pa.list_(pa.float32())),
            ("versions", ints),
            *identity,
        ],
    }
    return pa.schema(columns[kind])
