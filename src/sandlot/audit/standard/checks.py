"""The checks of OpenEnv's RFC 008 (environment auto-validation), and which probes of an audit answer them.

44 acceptance tests have 45 check ids: tests 8 and 25 have two each, tests 5 and 7 were dropped from version 1, and
`static.manifest` has no number. The ids of the lane `hub` are reserved there for operators, and nobody fills them; here they are
filled where an audit or stored runs of models can answer them.
"""

from enum import StrEnum

import msgspec


class StandardLevel(StrEnum):
    """The levels, cheapest first; `--level` names the last one to check."""

    STATIC = "static"
    RUNTIME = "runtime"
    SEMANTIC = "semantic"
    STATISTICAL = "statistical"


class StandardCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One check id."""

    id: str
    number: int | None
    """The acceptance test it answers."""
    level: StandardLevel
    what: str
    lane: str = "local"
    """`local`, or `hub` for a check that the standard leaves to operators."""
    severity: str = "fail"
    """Version 1 of the policy: what a failed check means, `fail`, `warn` or `advisory`."""
    probes: tuple[str, ...] = ()
    """The probes of an audit that answer it."""
    codes: tuple[str, ...] = ()
    """The classes of their findings that fail it."""


_S, _R, _M, _T = StandardLevel.STATIC, StandardLevel.RUNTIME, StandardLevel.SEMANTIC, StandardLevel.STATISTICAL


def _check(
    number: int | None,
    id_: str,
    level: StandardLevel,
    what: str,
    probes: str = "",
    codes: str = "",
    *,
    severity: str = "fail",
    lane: str = "local",
) -> StandardCheck:
    return StandardCheck(
        id=id_,
        number=number,
        level=level,
        what=what,
        lane=lane,
        severity=severity,
        probes=tuple(probes.split()),
        codes=tuple(codes.split()),
    )


STANDARD_CHECKS = (
    _check(None, "static.manifest", _S, "the environment loads, and every field is known"),
    _check(1, "static.reproducible_build", _S, "the image is named by digest, or is built from the same inputs"),
    _check(2, "hub.layer_isolation", _S, "a changed file changes one layer", severity="warn", lane="hub"),
    _check(3, "static.image_hygiene", _S, "the image holds no build tools", severity="warn"),
    _check(4, "static.layout", _S, "files are files, not archives", severity="warn"),
    _check(6, "hub.time_to_first_work", _R, "seconds until a tool can be called", severity="warn", lane="hub"),
    _check(8, "static.sbom", _S, "a list of components"),
    _check(8, "hub.cosign_signature", _S, "the image is signed", lane="hub"),
    _check(9, "static.oci_labels", _S, "labels of the image"),
    _check(10, "static.resource_declaration", _S, "processors, memory and disk are declared"),
    _check(11, "semantic.resource_envelope", _M, "the golden solution stays well within the limits", "margins", "D13"),
    _check(12, "static.timeout_ceiling", _S, "a rollout has a time limit"),
    _check(13, "statistical.reward_reachability", _T, "a model reaches full marks", lane="hub"),
    _check(14, "statistical.difficulty_separation", _T, "a stronger model scores more", lane="hub"),
    _check(15, "statistical.headroom", _T, "models do not score full marks already", severity="warn", lane="hub"),
    _check(16, "statistical.variance_bound", _T, "attempts at one task do not all score the same", lane="hub"),
    _check(17, "statistical.training_signal", _T, "the score rises in training", severity="advisory", lane="hub"),
    _check(18, "runtime.egress_denied", _R, "the network is denied by default"),
    _check(19, "runtime.host_containment", _R, "the agent cannot leave its sandbox"),
    _check(20, "runtime.resource_bounds", _R, "processors, memory, processes and disk of a rollout are bounded"),
    _check(21, "runtime.episode_isolation", _R, "a rollout leaves nothing", "after-others neighbours", "D05 D18"),
    _check(22, "runtime.oracle_containment", _R, "the key is out of reach", "leaked-keys look-up copied-field", "D11"),
    _check(23, "runtime.reward_well_formed", _R, "rewards are finite and in range", "reward-range ladder odd-answers", "D06 D09"),
    _check(24, "runtime.rubric_introspectable", _R, "the parts of the reward can be read", severity="warn"),
    _check(25, "semantic.oracle_max", _M, "the golden solution gets full marks", "golden golden-passes", "D13"),
    _check(25, "semantic.floor_gap", _M, "doing nothing earns nothing", "does-nothing empty-words", "D02"),
    _check(
        26, "statistical.adversarial_floor", _T, "attacks earn nothing",
        "hollow-answers planted-files shortcuts random-calls", "D02 D14", lane="hub",
    ),
    _check(
        27, "statistical.gameability_gap", _T, "attacks earn less than work", "hollow-answers best-guess near-misses shortcuts",
        "D02 D14 D22", severity="warn", lane="hub",
    ),
    _check(28, "semantic.canary_floor", _M, "the author's own cheats earn nothing", "own-adversaries", "D02"),
    _check(29, "runtime.observation_schema", _R, "tools answer as their schemas say", "tool-schemas allowed-calls", "D08"),
    _check(30, "semantic.no_solution_leakage", _M, "no observation holds the key", "leaked-keys telling-replies look-up", "D11"),
    _check(31, "runtime.state_contract", _R, "an episode has an id and counts its steps"),
    _check(32, "runtime.trajectory_record", _R, "every rollout leaves a record", severity="warn"),
    _check(33, "runtime.reward_attribution", _R, "every point says which check gave it", severity="warn"),
    _check(
        34, "runtime.tool_declaration_accuracy", _R, "declared tools are the tools there are",
        "tool-schemas golden-calls forbidden-calls production-tools", "D08",
    ),
    _check(35, "runtime.task_declaration_accuracy", _R, "declared tasks are the tasks there are"),
    _check(36, "runtime.seed_control", _R, "the seed decides the world", "shuffled-order", "D05"),
    _check(37, "runtime.episode_determinism", _R, "the same acts have the same effects", "after-others", "D05"),
    _check(38, "hub.cross_host_determinism", _R, "the same scores on another machine", lane="hub"),
    _check(39, "semantic.verifier_determinism", _M, "grading again gives the same score", "same-again graded-again", "D10"),
    _check(
        40, "semantic.verifier_portability", _M, "grading depends on no machine, clock or network",
        "other-surroundings outside-world", "D17",
    ),
    _check(41, "static.dependency_pinning", _S, "what is installed is pinned"),
    _check(42, "static.task_distribution_pinning", _S, "the tasks are fixed by a digest"),
    _check(43, "hub.immutable_versioning", _S, "a version is a digest, and cannot change", lane="hub"),
    _check(44, "semantic.replayability", _M, "a stored rollout is graded as it was", "same-again graded-again", "D10"),
)  # fmt: skip
"""In the order of the acceptance tests."""

DROPPED = {5: "conversion to lazily loaded images", 7: "inspection of the image's composition"}
"""Acceptance tests without a check id: dropped from version 1."""
