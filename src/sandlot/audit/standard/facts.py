"""What answers a check of RFC 008 without a probe: what an environment declares, and what stored runs of models show."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isfinite
from statistics import fmean, pstdev

from sandlot.core.trace_row import TraceRow
from sandlot.core.types import Json
from sandlot.env.environment import Environment
from sandlot.env.fingerprint import environment_fingerprint
from sandlot.env.taskset import tasks_of

_NO_CONTAINER = "environments of Sandlot are no OCI images: the root file system is built from packages that are named by digest"
_SPREAD = 0.05
"""Standard deviation of a task's scores below which its attempts teach nothing."""


@dataclass(frozen=True, slots=True)
class StandardAnswer:
    """Whether a check holds; None if nothing here can say."""

    holds: bool | None
    evidence: str
    remediation: str = ""
    measured: Json = field(default_factory=dict[str, object])


def _holds(evidence: str, measured: Json | None = None) -> StandardAnswer:
    return StandardAnswer(holds=True, evidence=evidence, measured=measured or {})


def _unknown(why: str) -> StandardAnswer:
    return StandardAnswer(holds=None, evidence=why)


def declared_answers(env: Environment, capabilities: Mapping[str, str]) -> dict[str, StandardAnswer]:
    """By check id: what the environment declares, and what its sandbox isolates (`Backend.probe`; empty if it needs none)."""
    tasks, digest = list(tasks_of(env)), environment_fingerprint(env)
    names = [task.id for task in tasks]
    graded_by_checks = not env.marked.grade
    image = env.image or "none: no process of the agent runs"
    return {
        "static.manifest": _holds(f"`{env.name}` loads, with {len(tasks)} tasks and {len(env.tools)} tools"),
        "static.reproducible_build": _build(env),
        "static.image_hygiene": _unknown(_NO_CONTAINER),
        "static.layout": _unknown(_NO_CONTAINER),
        "static.sbom": _unknown(_NO_CONTAINER),
        "static.oci_labels": _unknown(_NO_CONTAINER),
        "hub.layer_isolation": _unknown(_NO_CONTAINER),
        "hub.cosign_signature": _unknown("audits are bound to a digest; nothing is signed"),
        "hub.time_to_first_work": _unknown("`make bench NAME=sandbox` measures it; an audit does not"),
        "hub.cross_host_determinism": _unknown("repeat the audit on another machine, and compare digests and verdicts"),
        "hub.immutable_versioning": _holds(f"the version is the digest {digest}", measured={"digest": digest}),
        "static.resource_declaration": _holds(f"image {image}", measured=_resources(env)),
        "static.timeout_ceiling": StandardAnswer(
            isfinite(env.limits.time_s), f"{env.limits.time_s:g} s and {env.limits.turns} turns for a rollout"
        ),
        "runtime.egress_denied": StandardAnswer(
            env.network == "none" or env.image is None,
            f"network `{env.network}`" if env.image else "there is no sandbox: the agent has the environment's tools alone",
            'declare `network="none"`',
        ),
        "runtime.host_containment": _containment(env, capabilities),
        "runtime.resource_bounds": _bounds(env, capabilities),
        "runtime.rubric_introspectable": StandardAnswer(graded_by_checks, _checks(env), "declare checks instead of `@env.grade`"),
        "runtime.reward_attribution": StandardAnswer(graded_by_checks, _checks(env), "declare checks instead of `@env.grade`"),
        "runtime.state_contract": _holds("every rollout has an id, and its trace numbers the turns"),
        "runtime.trajectory_record": _holds("every rollout leaves a trace; graded evidence is stored with it"),
        "runtime.task_declaration_accuracy": StandardAnswer(
            len(set(names)) == len(names) > 0, f"{len(names)} tasks, {len(set(names))} ids", "give each task an id of its own"
        ),
        "static.dependency_pinning": _pinned(env),
        "static.task_distribution_pinning": _holds(f"the digest {digest} covers the tasks"),
    }


def _build(env: Environment) -> StandardAnswer:
    if env.image is None:
        return _holds("there is no image to build")
    return _unknown(f"image `{env.image}`: build it twice with `sandlot images build`, and compare the digests")


def _pinned(env: Environment) -> StandardAnswer:
    if env.image is None:
        return _holds("nothing is installed")
    return _unknown(f"image `{env.image}`: what its build installs is not checked for versions")


def _resources(env: Environment) -> Json:
    limits = env.limits
    return {"image": env.image, "time_s": limits.time_s, "turns": limits.turns, "evidence_bytes": limits.evidence_bytes}


def _checks(env: Environment) -> str:
    return "each point names its check" if not env.marked.grade else "the environment grades itself with one number"


def _containment(env: Environment, capabilities: Mapping[str, str]) -> StandardAnswer:
    if env.image is None:
        return _holds("there is no sandbox: the agent has the environment's tools alone")
    return _isolated(capabilities)


def _bounds(env: Environment, capabilities: Mapping[str, str]) -> StandardAnswer:
    if env.image is None:
        return _holds("there is no sandbox; tools have time limits")
    return _isolated(capabilities)


def _isolated(capabilities: Mapping[str, str]) -> StandardAnswer:
    if not capabilities:
        return _unknown("no sandbox could be probed on this machine; `sandlot doctor` says why")
    lacking = [name for name, state in capabilities.items() if state.startswith("no")]
    return StandardAnswer(
        not lacking,
        f"not isolated: {', '.join(lacking)}" if lacking else f"isolated: {', '.join(capabilities)}",
        "see `sandlot doctor`",
    )


# -- stored runs of models ---------------------------------------------------------------------------------------------


def measured_answers(runs: Mapping[str, Sequence[TraceRow]]) -> dict[str, StandardAnswer]:
    """By check id, from the scored rows of runs, weakest model first. Without runs: why the checks are skipped."""
    ids = ("reward_reachability", "headroom", "variance_bound", "difficulty_separation", "training_signal")
    if not runs:
        why = _unknown("no run of a model was given; `--run RUN`, weakest model first")
        return {f"statistical.{name}": why for name in ids}
    scores = {name: _scores(rows) for name, rows in runs.items()}
    means = {name: fmean(value for values in tasks.values() for value in values) for name, tasks in scores.items() if tasks}
    last = list(scores.values())[-1]
    if not last:
        return {f"statistical.{name}": _unknown("no rollout of the last run was scored") for name in ids}
    full = sum(max(values) >= 1.0 for values in last.values())
    mixed = sum(len(values) > 1 and pstdev(values) > _SPREAD for values in last.values())
    several = sum(len(values) > 1 for values in last.values())
    shown: Json = {"means": means}
    return {
        "statistical.reward_reachability": StandardAnswer(
            full > 0, f"full marks on {full} of {len(last)} tasks", "make the tasks easier", shown
        ),
        "statistical.headroom": StandardAnswer(
            full < len(last) or mixed > 0, f"mean score {list(means.values())[-1]:.3f}" if means else "nothing was scored",
            "make the tasks harder", shown,
        ),
        "statistical.variance_bound": StandardAnswer(
            mixed > 0 if several else None,
            f"{mixed} of {several} tasks with several attempts have different scores" if several else "one attempt at each task",
            "calibrate: `sandlot calibrate`", {"informative": mixed, "groups": several},
        ),
        "statistical.difficulty_separation": _separation(means),
        "statistical.training_signal": _unknown("needs a training: compare held-out scores before and after"),
    }  # fmt: skip


def _scores(rows: Sequence[TraceRow]) -> dict[str, list[float]]:
    scores: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.score is not None:
            scores[row.task].append(row.score)
    return scores


def _separation(means: Mapping[str, float]) -> StandardAnswer:
    if len(means) < 2:
        return _unknown("needs runs of two models or more, weakest first")
    rising = all(low < high for low, high in pairwise(means.values()))
    return StandardAnswer(rising, " < ".join(f"{name} {mean:.3f}" for name, mean in means.items()), "", {"means": dict(means)})
