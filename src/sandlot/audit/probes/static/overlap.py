"""D12: held-out tasks that repeat training tasks.

A question is a prompt with its data. Two tasks with equal prompt and data, or equal except for case, spaces and punctuation, are
the same question. Two that are similar (80 % of their five-word sequences in common, without sequences that half of all tasks
have) and have the same key are a lead. The search over the rarest sequences of each task is exact, not sampled.
"""

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity, Witness, make_finding
from sandlot.audit.probes.static.code import LIVE, read_code
from sandlot.core.groups import group_by_key
from sandlot.core.task import Task, split_of
from sandlot.core.types import Split

_MOST = 0.005
"""The share of held-out tasks that may repeat by chance."""
NEAR = 0.8
_PIECE = 5
_TRIFLE = 100
"""Equal data below this many bytes may be chance."""
_LONGEST = 4_000
"""Most characters of a task that are compared for similarity."""
_WORDS = re.compile(r"\w+|[^\w\s]")
_FIX = (
    "draw held-out tasks from another range and drop repeated questions: "
    "`@environment(..., distinct=True)` does this for environments of one function"
)


@dataclass(frozen=True, slots=True)
class _Twin:
    """A held-out task and the training task that it repeats."""

    train: Task
    heldout: Task


async def _look(case: Case) -> list[Finding]:
    """No held-out task repeats a training task."""
    train = [task for task in case.description.tasks if split_of(task) is Split.TRAIN]
    heldout = [task for task in case.description.tasks if split_of(task) is Split.HELDOUT]
    fixed = not _draws(case)
    found: list[Finding] = []
    known: set[str] = set()
    for way, twins in (
        ("word for word", _twins(train, heldout, exact=True)),
        ("except for case, spaces and punctuation", _twins(train, heldout, exact=False)),
    ):
        sure = [twin for twin in twins if twin.heldout.id not in known and _same_world(twin, fixed=fixed)]
        known |= {twin.heldout.id for twin in sure}
        if sure:
            found.append(_finding("D12.same", way, sure, len(heldout), sure=True))
    near = [twin for twin in near_twins(train, heldout) if twin.heldout.id not in known]
    same = [twin for twin in near if _same_data(twin)]
    other = [twin for twin in near if not _same_data(twin)]
    if same:
        found.append(_finding("D12.near", "with the same data and key in other words", same, len(heldout), sure=True))
    if other:
        found.append(_finding("D12.near", f"with the same key and {NEAR:.0%} of the words", other, len(heldout), sure=False))
    return found


def _applies(case: Case) -> str | None:
    splits = {split_of(task) for task in case.description.tasks}
    return None if len(splits) == 2 else "there is only one split"


def _draws(case: Case) -> bool:
    """True if worlds use `world.rng`, so that the same prompt and data may give another world."""
    return any(".rng" in case.description.sources.get(f.module.path, "") for f in read_code(case).working_in(*LIVE))


def _same_world(twin: _Twin, *, fixed: bool) -> bool:
    if twin.train.key and _json(twin.train.key) == _json(twin.heldout.key):
        return True
    return fixed and bool(twin.train.prompt or twin.train.data) and twin.train.prompt == twin.heldout.prompt


def _same_data(twin: _Twin) -> bool:
    """True if both have the same data, and enough of it."""
    one, other = _json(twin.train.data), _json(twin.heldout.data)
    return one == other and len(one) >= _TRIFLE


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic", enc_hook=repr)


def _twins(train: Sequence[Task], heldout: Sequence[Task], *, exact: bool) -> list[_Twin]:
    """For each held-out task, a training task that asks the same, if there is one."""
    asked: dict[bytes, Task] = {}
    for task in train:
        asked.setdefault(_asked(task, exact=exact), task)
    return [_Twin(asked[what], task) for task in heldout if (what := _asked(task, exact=exact)) in asked]


def _asked(task: Task, *, exact: bool) -> bytes:
    text = task.prompt if exact else " ".join(re.findall(r"\w+", task.prompt.casefold()))
    return _json([text, task.data])


def _finding(code: str, way: str, twins: list[_Twin], heldout: int, *, sure: bool) -> Finding:
    share = len(twins) / heldout
    first = min(twins, key=lambda twin: (len(twin.heldout.prompt), twin.heldout.id))
    witness = Witness(
        inputs={
            "train": first.train.id,
            "heldout": first.heldout.id,
            "train_prompt": first.train.prompt[:400],
            "heldout_prompt": first.heldout.prompt[:400],
            "compared": "prompt and data" + ("" if sure else ", in pieces of five words; key"),
        },
        expected=f"at most {_MOST:.1%} of held-out tasks repeat a training task",
        observed=f"{share:.1%} do, {way}",
    )
    title = f"{len(twins)} of {heldout} held-out tasks repeat a training task {way}"
    severity = Severity.HIGH if share > _MOST else Severity.LOW
    return make_finding(code, title, witness, severity=severity, sure=sure, count=len(twins), fix=_FIX)


# -- similar tasks -----------------------------------------------------------------------------------------------------


def near_twins(train: Sequence[Task], heldout: Sequence[Task]) -> Iterator[_Twin]:
    """Pairs with the same key and 80 % of their word sequences in common, the first for each held-out task."""
    tasks = [*train, *heldout]
    pieces = [_pieces(task) for task in tasks]
    often = Counter(piece for each in pieces for piece in each)
    kept = [frozenset(piece for piece in each if often[piece] <= len(tasks) / 2) for each in pieces]
    index = group_by_key((piece, at) for at in range(len(train)) for piece in _rarest(kept[at], often))
    for at in range(len(train), len(tasks)):
        others = {other for piece in _rarest(kept[at], often) for other in index.get(piece, ())}
        for other in sorted(others):
            if jaccard(kept[at], kept[other]) >= NEAR and tasks[at].key and _json(tasks[at].key) == _json(tasks[other].key):
                yield _Twin(tasks[other], tasks[at])
                break


def _pieces(task: Task) -> frozenset[tuple[str, ...]]:
    text = f"{task.prompt}\n{_json(task.data).decode(errors='replace') if task.data else ''}"[:_LONGEST].casefold()
    words: list[str] = _WORDS.findall(text)
    return frozenset(tuple(words[at : at + _PIECE]) for at in range(max(1, len(words) - _PIECE + 1)))


def _rarest(pieces: frozenset[tuple[str, ...]], often: Counter[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """The rarest sequences, enough that two sets with 80 % in common share one of them."""
    ordered = sorted(pieces, key=lambda piece: (often[piece], piece))
    return ordered[: len(ordered) - math.ceil(NEAR * len(ordered)) + 1] if ordered else []


def jaccard(left: frozenset[Any], right: frozenset[Any]) -> float:
    """Jaccard index: the share of common elements."""
    return len(left & right) / len(left | right) if left or right else 0.0


PROBE = Probe("overlapping-splits", Layer.STATIC, ("D12",), _look, _applies)
