"""The review desk: a queue of rollouts, read and labelled one after the other with the keyboard.

The queue is drawn by triage, or by the reader's own filter; both are in the address, so that a link shows the same queue. Labels
and notes are stored with the run before the answer is sent, as `sandlot triage --review` stores them. Labels of other readers are
shown only after one's own: people who see each other's labels agree too well.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from sandlot.analysis.own_labels import LabelChoice, choose_label, label_choices
from sandlot.analysis.taxonomy import LABELS, label_of
from sandlot.analysis.triage.labels import Labels, add_label, add_note, read_labels
from sandlot.analysis.triage.queue import QueueFilter, filter_queue
from sandlot.analysis.triage.strata import Chosen
from sandlot.analysis.triage.triage import draw_queue
from sandlot.core.concurrency.clock import SYSTEM_CLOCK
from sandlot.core.errors import ConfigError
from sandlot.core.text import printable
from sandlot.core.trace import Failed, Scored, Trace
from sandlot.core.types import End
from sandlot.run.results import Run
from sandlot.web.pages.conversation import read_conversation
from sandlot.web.site import Asked, link, run_name
from sandlot.web.told import is_whole, reader_of, require_reader, told_note, told_rollout, told_text

_FIRST = ("ok", "model_wrong", "spec_ambiguous", "hack_suspected")
"""Built-in labels that have the first number keys."""
_KEYS = 9


@dataclass(frozen=True)
class _Queue:
    """Rollouts to read, in order."""

    items: tuple[Chosen, ...]
    places: Mapping[tuple[str, int], int]


@dataclass(frozen=True)
class _Place:
    """Where a reader is: a queue, its words in the address, and the rollout that is shown."""

    queue: _Queue
    words: Mapping[str, str]
    task: str
    rollout: int

    @property
    def number(self) -> int | None:
        """The place of the rollout in the queue, from 0; None if it is not in it."""
        return self.queue.places.get((self.task, self.rollout))

    def link_to(self, run: str, chosen: Chosen | None) -> str | None:
        """The address of another rollout of the queue."""
        if chosen is None:
            return None
        return link(run, "review", **self.words, at=f"{chosen.task}/{chosen.rollout}")


def review_page(asked: Asked) -> dict[str, Any]:
    """The rollout at which the reader is, with the queue around it."""
    path, reader = asked.run, reader_of(asked.site)
    run, labels = Run(path), read_labels(path)
    words = _queue_words(asked)
    queue = _find_queue(run, words)
    common = {
        "title": f"review {run_name(path)}",
        "name": run_name(path),
        "reader": reader,
        "filter": QueueFilter.parse(asked.query),
        "filtered": "filter" in words,
        "seed": asked.number("seed"),
        "computed": [label.name for label in LABELS],
        "ends": [str(end) for end in End],
        "total": len(queue.items),
        "done": _num_done(queue, labels, reader),
    }
    first = _next_unread(queue, labels, reader, start=0) or (queue.items[0] if queue.items else None)
    task, rollout = _rollout_asked(asked) or ((first.task, first.rollout) if first else (None, 0))
    if task is None:
        return {**common, "item": None}
    place = _Place(queue, words, task, rollout)
    trace = run.trace(task, rollout)
    return {**common, "item": _item(path, place, trace, labels, reader), "choices": _choices(label_choices(path))}


def label_rollout(asked: Asked, told: dict[str, Any]) -> dict[str, Any]:
    """Store the reader's label of a rollout, with a note; answers with where to go next."""
    path, reader = asked.run, require_reader(asked.site)
    task, rollout = told_rollout(told)
    label, note = told_text(told, "label"), told_note(told)
    choose_label(path, label)  # refused before the trace is looked up
    run = Run(path)
    run.trace(task, rollout)  # raises if there is no such rollout
    kept = add_label(path, task=task, rollout=rollout, label=label, by=reader, note=note, at=SYSTEM_CLOCK.wall())
    words = _queue_words(asked)
    place = _Place(_find_queue(run, words), words, task, rollout)
    labels = read_labels(path)
    following = _next_unread(place.queue, labels, reader, start=(place.number or 0) + 1)
    return {
        "label": kept.label,
        "by": kept.by,
        "done": _num_done(place.queue, labels, reader),
        "total": len(place.queue.items),
        "next": place.link_to(run_name(path), following),
    }


def note_message(asked: Asked, told: dict[str, Any]) -> dict[str, Any]:
    """Store the reader's note on one message of a rollout; an empty one takes it back."""
    path, reader = asked.run, require_reader(asked.site)
    task, rollout = told_rollout(told)
    message, note = told.get("message"), told_note(told)
    count = len(Run(path).trace(task, rollout).nodes)
    if not isinstance(message, int) or not is_whole(message) or not 0 <= message < count:
        raise ConfigError(f"message `{str(message)[:60]}` does not exist; the rollout has messages 0 to {count - 1}")
    kept = add_note(path, task=task, rollout=rollout, message=message, note=note, by=reader, at=SYSTEM_CLOCK.wall())
    return {"note": kept.note, "by": kept.by}


def _item(path: Path, place: _Place, trace: Trace, labels: Labels, reader: str) -> dict[str, Any]:
    """The rollout as the desk shows it."""
    number, items = place.number, place.queue.items
    given = labels.of(trace.task, trace.rollout)
    mine = given.get(reader)
    outcome = trace.outcome
    notes = labels.notes_of(trace.task, trace.rollout)
    visible = notes if mine or not reader else [each for each in notes if each.by == reader]
    return {
        "task": trace.task,
        "rollout": trace.rollout,
        "place": None if number is None else number + 1,
        "why": items[number].why if number is not None else "not in this queue",
        "proposed": (label_of(trace) if outcome is not None else None) or "",
        "previous": place.link_to(run_name(path), items[number - 1] if number else None),
        "next": place.link_to(run_name(path), items[number + 1] if number is not None and number + 1 < len(items) else None),
        "unread": place.link_to(run_name(path), _next_unread(place.queue, labels, reader, start=(number or 0) + 1)),
        "post": link(run_name(path), "label", **place.words),
        "post_note": link(run_name(path), "note"),
        "mine": mine,
        "others": [each for each in given.values() if each.by != reader] if mine or not reader else [],
        "hidden": 0 if mine or not reader else sum(name != reader for name in given),
        "notes": {
            message: [each for each in visible if each.message == message] for message in {each.message for each in visible}
        },
        "score": outcome.score if isinstance(outcome, Scored) else None,
        "checks": _checks(outcome.score.checks) if isinstance(outcome, Scored) else [],
        "failed": f"{outcome.side}/{outcome.kind}: {printable(outcome.message, 2000)}" if isinstance(outcome, Failed) else "",
        "end": str(trace.end or ""),
        "messages": read_conversation(trace),
    }


def _checks(checks: Any) -> list[dict[str, Any]]:
    """The checks, those that cost points first."""
    shown = [
        {
            "id": printable(check.id, 200),
            "verdict": str(check.verdict),
            "lost": check.points < check.worth if check.worth > 0 else check.points < 0,
            "points": check.points,
            "worth": check.worth,
            "evidence": printable(check.evidence, 800),
        }
        for check in checks
    ]
    return sorted(shown, key=lambda check: not check["lost"])


def _choices(choices: tuple[LabelChoice, ...]) -> list[dict[str, Any]]:
    """The labels with their number keys: the most used built-in ones, the team's own, then the rest."""
    rank = {name: place for place, name in enumerate(_FIRST)}
    ordered = sorted(choices, key=lambda choice: rank.get(choice.name, len(rank) if choice.own else len(rank) + 1))
    return [
        {"name": choice.name, "what": choice.what, "own": choice.own, "key": place + 1 if place < _KEYS else None}
        for place, choice in enumerate(ordered)
    ]


# -- queues ------------------------------------------------------------------------------------------------------------


def _rollout_asked(asked: Asked) -> tuple[str, int] | None:
    task, _, rollout = asked.query.get("at", "").rpartition("/")
    return (task, int(rollout)) if task and rollout.isascii() and rollout.isdigit() and len(rollout) < 10 else None


def _queue_words(asked: Asked) -> dict[str, str]:
    """The words of the address that choose the queue."""
    if "filter" in asked.query:
        return {"filter": "1", **QueueFilter.parse(asked.query).words}
    seed = asked.number("seed")
    return {"seed": str(seed)} if seed else {}


def _find_queue(run: Run, words: Mapping[str, str]) -> _Queue:
    if "filter" in words:
        return _filtered(run.path, len(run), _written(run.path), QueueFilter.parse(words))
    return _drawn(run.path, _written(run.path), int(words.get("seed", "0")))


@lru_cache(maxsize=16)
def _drawn(path: Path, _written_at: int, seed: int) -> _Queue:
    """The queue of triage, kept while the server runs: a run that goes on does not change the queue that is being read."""
    return _in_order(draw_queue(Run(path), seed=seed))


@lru_cache(maxsize=16)
def _filtered(path: Path, _size: int, _written_at: int, wanted: QueueFilter) -> _Queue:
    return _in_order(filter_queue(Run(path), wanted))


def _in_order(items: tuple[Chosen, ...]) -> _Queue:
    return _Queue(items, {(item.task, item.rollout): place for place, item in enumerate(items)})


def _written(path: Path) -> int:
    """What differs if another run took the place of this one."""
    return (path / "manifest.json").stat().st_mtime_ns


def _read_by(labels: Labels, reader: str) -> set[tuple[str, int]]:
    return {each.key for each in labels.given if each.by == reader or not reader}


def _num_done(queue: _Queue, labels: Labels, reader: str) -> int:
    return sum(key in queue.places for key in _read_by(labels, reader))


def _next_unread(queue: _Queue, labels: Labels, reader: str, *, start: int) -> Chosen | None:
    """The first rollout from `start` on that the reader has not labelled; after the end, from the beginning."""
    read = _read_by(labels, reader)
    around = (*queue.items[start:], *queue.items[:start])
    return next((item for item in around if (item.task, item.rollout) not in read), None)
