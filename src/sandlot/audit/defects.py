"""Classes of defects by code. Findings name one of these; documentation and reports use these texts."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Defect:
    """One class of defects."""

    name: str
    harm: str
    """What a model learns from it."""
    fix: str


DEFECTS = {
    "D01": _Defect(
        "stale observation",
        "that its actions have no effect, because a tool shows an old state",
        "read the state at every call, or put its version into the cache key",
    ),
    "D02": _Defect(
        "gameable metric",
        "a shortcut instead of the task",
        "grade the result itself, where the agent cannot write, and check what only real work leaves behind",
    ),
    "D03": _Defect(
        "judge injection",
        "to address the judge instead of doing the task",
        "show the judge extracted fields as data, not as instructions; parse verdicts strictly; add deterministic checks",
    ),
    "D04": _Defect(
        "silent default",
        "that a broken tool or grader was its own fault, because an error became a score or a normal result",
        "raise errors: a check that cannot decide raises, and the rollout gets no score",
    ),
    "D05": _Defect(
        "reset leak",
        "to rely on what another rollout left, or on chance",
        "create all state in setup from the task's data and `world.rng`; keep nothing in modules, classes or host files",
    ),
    "D06": _Defect(
        "reward artefact",
        "nothing, because better work gets the same reward or less",
        "do not round; clip only outside the range that is reached; give points for every step towards the goal",
    ),
    "D07": _Defect(
        "unreal data",
        "a world that is cleaner than the real one",
        "draw fields from a sample of real data, with gaps, duplicates, long tails and other alphabets",
    ),
    "D08": _Defect(
        "action-space drift",
        "other tools than those in production",
        "derive schema, handler, prompt and production manifest from one source",
    ),
    "D09": _Defect(
        "crashing grader",
        "nothing, or that an unusual answer scores 0, although it was never graded",
        "treat agents' text as hostile input: decide `not met` if it cannot be parsed, raise only if the grader is broken",
    ),
    "D10": _Defect(
        "flaky grader",
        "noise, because the same work gets different scores",
        "remove time, random numbers and order from the check; take a majority vote of a judge",
    ),
    "D11": _Defect(
        "leaked answer",
        "to search for the answer instead of doing the task",
        "keep keys in `task.key`; remove answers from files, history, variables and tool results",
    ),
    "D12": _Defect(
        "contamination",
        "the test itself, because held-out tasks repeat training tasks",
        "split by question, not by id; draw held-out tasks from another range",
    ),
    "D13": _Defect(
        "unsolvable task",
        "that trying is useless",
        "make the golden solution get full marks with the agent's tools, well within the limits",
    ),
    "D14": _Defect(
        "guessable task",
        "to guess",
        "ask for more than a choice of a few answers, or balance the answers and score chance level as 0",
    ),
    "D15": _Defect(
        "hidden requirement",
        "to guess what the grader wants",
        "say in the prompt everything that the checks require: names, formats, tolerances",
    ),
    "D16": _Defect(
        "unstable judge",
        "noise, or to please the judge, because order, length and chance decide",
        "ask one exact question at temperature 0, take a majority vote, and use a judge only while it agrees with people",
    ),
    "D17": _Defect(
        "outside dependence",
        "what is true only on one day or one machine",
        "take time, randomness, locale and the network from the task's data",
    ),
    "D18": _Defect(
        "interference",
        "wrong effects of its actions, because concurrent rollouts share state",
        "use no module state, fixed ports, fixed host paths, working directory or environment variables",
    ),
    "D19": _Defect(
        "hidden observation",
        "to guess what was cut from a result",
        "mark every cut, offer paging, and show what the task needs within the limit",
    ),
    "D20": _Defect(
        "token drift",
        "on tokens that the model never sees in use",
        "run `sandlot tokens` and the renderer's self-test before training",
    ),
    "D21": _Defect(
        "dead criterion",
        "nothing, because a check has the same verdict whatever the agent does",
        "make each check fail for some wrong solution, or remove it",
    ),
    "D22": _Defect(
        "answer matching",
        "format instead of meaning, or that a near miss is right",
        "compare values, not texts: parse numbers, units, sets and dates, and reject values that differ",
    ),
    "D23": _Defect(
        "survivor bias",
        "only from easy rollouts, because hard ones fail and are excluded",
        "find out why they fail; until then watch the excluded share by length",
    ),
}


_WRONG_SCORES = ("D02.", "D03.", "D06.length", "D06.saturated", "D22.near", "D22.collision")
_NO_ANSWER = frozenset({"D02.material", "D02.surge", "D02.hack_suspected", "D02.evaluated"})
"""About code that is hidden from the audit, about the rollouts of a model, and about what a grader runs, whatever it scores."""


def claims_wrong(code: str) -> bool:
    """True if findings with this code say that a wrong answer, or wrong work, scores."""
    return code.startswith(_WRONG_SCORES) and code not in _NO_ANSWER
