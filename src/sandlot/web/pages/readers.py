"""The readers of a run: what each of them labelled, how far they agree, and where they do not."""

from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any

from sandlot.analysis.own_labels import own_labels_of
from sandlot.analysis.preferences import FILE as PREFERENCES
from sandlot.analysis.preferences import agreements_on, read_preferences
from sandlot.analysis.triage.agreement import ReaderAgreement, agreements_of
from sandlot.analysis.triage.labels import ENOUGH, LabelledTrace, read_labels, review_of
from sandlot.analysis.triage.labels import FILE as LABELS
from sandlot.core.text import printable
from sandlot.web.site import Asked, link, run_name

_SHOWN = 200
"""Rollouts in each list."""


def readers_page(asked: Asked) -> dict[str, Any]:
    """Labels by reader, agreement of every two, and the rollouts that were labelled differently."""
    path = asked.run
    labels, preferences = read_labels(path), read_preferences(path)
    counting = labels.counting
    by_rollout: dict[tuple[str, int], list[LabelledTrace]] = {}
    for each in counting:
        by_rollout.setdefault(each.key, []).append(each)
    differing = [(key, given) for key, given in by_rollout.items() if len({each.label for each in given}) > 1]
    return {
        "title": f"readers of {run_name(path)}",
        "name": run_name(path),
        "review": review_of(labels),
        "enough": ENOUGH,
        "own": own_labels_of(path),
        "readers": Counter(each.by for each in counting).most_common(),
        "agreements": _agreements(path, *_written(path / LABELS)),
        "differing": [_shown(run_name(path), key, given) for key, given in differing[:_SHOWN]],
        "num_differing": len(differing),
        "labelled": [_shown(run_name(path), key, given) for key, given in list(by_rollout.items())[-_SHOWN:]],
        "num_notes": len({(each.task, each.rollout, each.message, each.by) for each in labels.notes}),
        "compared": Counter(each.by for each in preferences.counting).most_common(),
        "preference_agreements": _agreements_on_pairs(path, *_written(path / PREFERENCES)),
        "damaged": (*labels.damaged, *preferences.damaged),
    }


@lru_cache(maxsize=16)
def _agreements(path: Path, _size: int, _at: int) -> tuple[ReaderAgreement, ...]:
    """Computed once for each state of the file: a bootstrap of thousands of labels takes seconds."""
    return agreements_of(read_labels(path).counting)


@lru_cache(maxsize=16)
def _agreements_on_pairs(path: Path, _size: int, _at: int) -> tuple[ReaderAgreement, ...]:
    return agreements_on(read_preferences(path).counting)


def _written(file: Path) -> tuple[int, int]:
    """What differs when something was added to a file."""
    try:
        found = file.stat()
    except FileNotFoundError:
        return 0, 0
    return found.st_size, found.st_mtime_ns


def _shown(run: str, key: tuple[str, int], given: list[LabelledTrace]) -> dict[str, Any]:
    task, rollout = key
    return {
        "task": printable(task, 200),
        "rollout": rollout,
        "link": link(run, "review", at=f"{task}/{rollout}"),
        "given": [(each.by, each.label, each.note) for each in given],
    }
