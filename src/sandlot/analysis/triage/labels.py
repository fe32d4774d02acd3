"""Labels that people give to rollouts, stored with the run in `labels.jsonl`, one per line; and their notes on single messages.

A label is on the built-in list or on the team's own (`own_labels.py`). Lines are only appended; the last label of a person for a
rollout counts, and so does the last note for a message. Each line has the version of the list. A line that cannot be read is
reported with its number.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from sandlot.analysis.own_labels import OwnMeaning, choose_label
from sandlot.analysis.taxonomy import VERSION
from sandlot.core.concurrency.clock import SYSTEM_CLOCK
from sandlot.core.errors import ConfigError
from sandlot.core.text import one_line, printable
from sandlot.run.results import Run
from sandlot.store.lines import append_line, read_lines

FILE = "labels.jsonl"
ENOUGH = 30
"""After this many rollouts without a new label, more reading will hardly find one."""
NOTE_CHARS = 4000
"""Maximum characters of a note."""
_NAME_CHARS = 100


class LabelledTrace(msgspec.Struct, frozen=True, kw_only=True):
    """One label of one person for one rollout."""

    format: int = 1
    taxonomy: int
    """The version of the list of labels."""
    task: str
    rollout: int
    label: str
    by: str
    note: str = ""
    at: float
    """Seconds since the epoch."""
    own: OwnMeaning | None = None
    """Of a label of the team's own, what it meant when it was given."""

    @property
    def key(self) -> tuple[str, int]:
        """Task and number of the rollout."""
        return self.task, self.rollout

    @property
    def counts_as(self) -> str | None:
        """The built-in label that it is, or stands for; None if it stands for none."""
        return self.own.counts_as if self.own else self.label


class MessageNote(msgspec.Struct, frozen=True, kw_only=True):
    """A person's note on one message of a rollout. An empty one takes the note back."""

    format: int = 1
    task: str
    rollout: int
    message: int
    """Number of the message in the trace, from 0."""
    note: str
    by: str
    at: float
    """Seconds since the epoch."""


class Labels(msgspec.Struct, frozen=True, kw_only=True):
    """All labels and notes of a run, in order."""

    given: tuple[LabelledTrace, ...] = ()
    notes: tuple[MessageNote, ...] = ()
    damaged: tuple[int, ...] = ()
    """Lines of the file that cannot be read, counted from 1."""

    @property
    def counting(self) -> tuple[LabelledTrace, ...]:
        """The last label of each person for each rollout."""
        last = {(each.key, each.by): each for each in self.given}
        return tuple(last.values())

    @property
    def rollouts(self) -> set[tuple[str, int]]:
        """The rollouts that have a label."""
        return {each.key for each in self.given}

    def of(self, task: str, rollout: int) -> dict[str, LabelledTrace]:
        """The label that counts of each person for one rollout."""
        return {each.by: each for each in self.given if each.key == (task, rollout)}

    def notes_of(self, task: str, rollout: int) -> list[MessageNote]:
        """The notes that count on the messages of one rollout, by message."""
        own = [each for each in self.notes if (each.task, each.rollout) == (task, rollout)]
        last = {(each.message, each.by): each for each in own}
        return sorted((each for each in last.values() if each.note), key=lambda each: (each.message, each.at))


class Review(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of labelling."""

    rollouts: int
    people: int
    labels: dict[str, int]
    """Number of rollouts by label, most frequent first."""
    since_new: int
    """Rollouts read since a label was used for the first time."""
    enough: bool
    """True if more reading will hardly find a new label."""
    twice: int
    """Rollouts that several people labelled."""
    agreed: int
    """Of those, the ones with equal labels."""
    damaged: tuple[int, ...] = ()


def read_labels(run: Path) -> Labels:
    """Read the labels and notes of a run. A last line that a crash cut off is ignored."""
    given: list[LabelledTrace] = []
    notes: list[MessageNote] = []
    damaged: list[int] = []
    lines = read_lines(run / FILE)
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        read = _read_line(line)
        if isinstance(read, LabelledTrace):
            given.append(read)
        elif isinstance(read, MessageNote):
            notes.append(read)
        else:
            damaged += [number] if number < len(lines) else []
    return Labels(given=tuple(given), notes=tuple(notes), damaged=tuple(damaged))


def _read_line(line: bytes) -> LabelledTrace | MessageNote | None:
    for kind in (LabelledTrace, MessageNote):  # a note has no label, and a label no message
        with suppress(msgspec.MsgspecError, UnicodeDecodeError):
            return msgspec.json.decode(line, type=kind)
    return None


def add_label(run: Path, *, task: str, rollout: int, label: str, by: str, note: str = "", at: float) -> LabelledTrace:
    """Store a label; it is on disk when this returns. `ConfigError` for a label that is not on the lists."""
    name, choice = reader_name(by), choose_label(run, label)
    labelled = LabelledTrace(
        taxonomy=VERSION,
        task=task,
        rollout=rollout,
        label=choice.name,
        by=name,
        note=printable(note, NOTE_CHARS),
        at=at,
        own=choice.own,
    )
    append_line(run / FILE, msgspec.json.encode(labelled))
    return labelled


def add_note(run: Path, *, task: str, rollout: int, message: int, note: str, by: str, at: float) -> MessageNote:
    """Store a note on a message; it is on disk when this returns. An empty one takes the person's last note back."""
    noted = MessageNote(task=task, rollout=rollout, message=message, note=printable(note, NOTE_CHARS), by=reader_name(by), at=at)
    append_line(run / FILE, msgspec.json.encode(noted))
    return noted


def reader_name(name: str) -> str:
    """The name of a person as it is stored; `ConfigError` if it is empty."""
    stored = one_line(name, _NAME_CHARS)
    if not stored:
        raise ConfigError(
            "a label needs the name of the person who gives it; add `--by NAME`, or `--reader NAME` for `sandlot view`"
        )
    return stored


def label_rollouts(run: Run, labels: Sequence[str], *, by: str, note: str = "") -> list[LabelledTrace]:
    """Store labels of rollouts, and return them. Nothing is stored if any of them is wrong.

    - `run`: the stored run; the labels go into its `labels.jsonl`.
    - `labels`: each is `TASK/ROLLOUT=LABEL`, such as `add-3/0=model_wrong`.
    - `by`: who gives the labels.
    - `note`: why.

    ```python
    import sandlot
    from sandlot.analysis.triage.labels import label_rollouts

    run = sandlot.run("arithmetic", "scripted:golden", rollouts=4)
    label_rollouts(run, ["arithmetic-0/0=ok"], by="ann", note="read in full")
    ```
    """
    chosen = [_read_label(run, text) for text in labels]
    at = SYSTEM_CLOCK.wall()
    return [
        add_label(run.path, task=task, rollout=rollout, label=name, by=by, note=note, at=at) for task, rollout, name in chosen
    ]


def _read_label(run: Run, text: str) -> tuple[str, int, str]:
    place, _, label = text.rpartition("=")
    task, _, rollout = place.rpartition("/")
    if not task or not (rollout.isascii() and rollout.isdigit()):
        raise ConfigError(f"`{text}` is not a label; write TASK/ROLLOUT=LABEL, for example `add-3/0=model_wrong`")
    run.trace(task, int(rollout))  # raises if there is no such rollout
    return task, int(rollout), choose_label(run.path, label).name


def review_of(labels: Labels) -> Review:
    """The progress of labelling, and whether it may stop."""
    counting = labels.counting
    by_rollout: dict[tuple[str, int], set[str]] = {}
    people: dict[tuple[str, int], set[str]] = {}
    for each in counting:
        by_rollout.setdefault(each.key, set()).add(each.label)
        people.setdefault(each.key, set()).add(each.by)
    twice = [key for key, names in people.items() if len(names) > 1]
    since = rollouts_since_new_class(labels.given)
    return Review(
        rollouts=len(by_rollout),
        people=len({each.by for each in counting}),
        labels=dict(Counter(each.label for each in counting).most_common()),
        since_new=since,
        enough=since >= ENOUGH,
        twice=len(twice),
        agreed=sum(len(by_rollout[key]) == 1 for key in twice),
        damaged=labels.damaged,
    )


def rollouts_since_new_class(given: Sequence[LabelledTrace]) -> int:
    """Number of different rollouts labelled since a label was used for the first time."""
    seen: set[str] = set()
    since: set[tuple[str, int]] = set()
    for each in given:
        if each.label in seen:
            since.add(each.key)
        else:
            seen.add(each.label)
            since.clear()
    return len(since)
