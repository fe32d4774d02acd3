"""What `sandlot health` and `sandlot triage` find in a run, with links to the rollouts to look at."""

from typing import Any

from sandlot.analysis.health.health import quick_health
from sandlot.analysis.health.item import HealthItem, HealthMark
from sandlot.analysis.triage.clusters import Cluster
from sandlot.analysis.triage.oddities import Odd
from sandlot.analysis.triage.signature import NONE
from sandlot.analysis.triage.triage import Triage, triage
from sandlot.core.text import one_line
from sandlot.run.results import Run
from sandlot.web.site import Asked

_CLUSTERS = 12
_LOOK = 3
_LONGEST = 400


def findings_page(asked: Asked) -> dict[str, Any]:
    """Health of the rows, and with `triage` in the address the clusters of what went wrong."""
    path = asked.run
    run, memory = Run(path), asked.site.memory
    items = memory.recall(path, "health", lambda: quick_health(run))
    found = memory.recall(path, "triage", lambda: triage(run)) if "triage" in asked.query else None
    return {
        "title": f"{path.name} / findings",
        "name": path.name,
        "rollouts": len(run),
        "health": [_item(item) for item in items],
        "triage": _triage(found) if found else None,
    }


def _item(item: HealthItem) -> dict[str, Any]:
    look = item.look[:_LOOK] if item.mark in {HealthMark.WARN, HealthMark.FAIL} else ()
    return {
        "name": item.name,
        "mark": item.mark.value.replace("_", " "),
        "said": one_line(item.said, _LONGEST),
        "needed": one_line(item.needed, _LONGEST) if item.mark is HealthMark.UNKNOWN else "",
        "look": [_place(place) for place in look],
    }


def _triage(found: Triage) -> dict[str, Any]:
    return {
        "opened": found.opened,
        "rollouts": found.rollouts,
        "labels": found.labels,
        "clusters": [_cluster(each) for each in found.clusters[:_CLUSTERS]],
        "more": len(found.clusters[_CLUSTERS:]),
        "odd": [_odd(each) for each in found.odd[:_CLUSTERS]],
        "proposed": len(found.proposed),
    }


def _cluster(cluster: Cluster) -> dict[str, Any]:
    signature, at = cluster.signature, cluster.concentration
    notes = [f"last tool `{signature.last_tool}`"] if signature.last_tool != NONE else []
    if at is not None:
        notes.append(
            f"concentrated in tag `{at.tag}`: {at.these_with} of {at.these} tasks, {at.passing_with} of {at.passing} that pass"
        )
    if cluster.contrast is not None:
        notes.append(cluster.contrast.said)
    return {
        "size": cluster.size,
        "share": cluster.share,
        "tasks": cluster.tasks,
        "label": signature.label,
        "kind": one_line(signature.kind, 120),
        "cause": one_line(signature.cause, _LONGEST),
        "blames": cluster.blames_environment,
        "notes": [one_line(note, _LONGEST) for note in notes],
        "look": [_place(place) for place in cluster.examples[:_LOOK]],
        "passing": _place(cluster.contrast.pair[0]) if cluster.contrast else None,
    }


def _odd(odd: Odd) -> dict[str, Any]:
    return {
        "size": odd.size,
        "share": odd.share,
        "why": odd.why,
        "said": one_line(odd.said, _LONGEST),
        "text": one_line(odd.text, 200),
        "look": [_place(place) for place in odd.examples[:_LOOK]],
    }


def _place(place: str) -> tuple[str, int]:
    """A rollout written as `TASK/ROLLOUT`."""
    task, _, rollout = place.rpartition("/")
    return task, int(rollout)
