"""The ways an environment can be wrong, by code. Findings name one of these; documentation and reports are written from here."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Defect:
    """One class of flaw."""

    code: str
    name: str
    harm: str
    """What a model learns from it."""
    fix: str


DEFECTS = {
    defect.code: defect
    for defect in (
        _Defect(
            "D01",
            "stale observation",
            "that acting changes nothing: a tool shows what was true before",
            "read the state at every call, or put its version into the cache's key",
        ),
        _Defect(
            "D02",
            "gameable metric",
            "the shortcut instead of the task",
            "grade the result itself, outside of what the agent can write, and ask for what only the work leaves behind",
        ),
        _Defect(
            "D03",
            "judge injection",
            "to talk to the judge instead of working",
            "show the judge extracted fields as data, never instructions; read verdicts exactly; add deterministic checks",
        ),
        _Defect(
            "D04",
            "silent default",
            "that a broken tool or grader was its own fault: an error became a score or a normal answer",
            "let errors rise: a check that cannot decide raises, and the rollout has no score",
        ),
        _Defect(
            "D05",
            "reset leak",
            "to count on what another rollout left, or on chance",
            "make all state in setup from the task's data and `world.rng`; keep nothing in modules, classes or host files",
        ),
        _Defect(
            "D06",
            "reward artefact",
            "nothing: better work gets the same reward, or less",
            "keep the score's resolution: no rounding, clip far outside what is reached, points for every step towards the goal",
        ),
        _Defect(
            "D07",
            "unreal data",
            "a world that is cleaner than the one it will work in",
            "draw fields from a sample of the real thing: gaps, duplicates, long tails, other alphabets",
        ),
        _Defect(
            "D08",
            "action-space drift",
            "tools that are not those it will have",
            "write schema, handler, prompt and production manifest from one source",
        ),
        _Defect(
            "D09",
            "crashing grader",
            "nothing, or that an odd answer is worth 0: what it said was never judged",
            "parse what agents write as hostile input: decide `not met` for what cannot be read, raise only for what is broken",
        ),
        _Defect(
            "D10",
            "flaky grader",
            "noise: the same work gets different scores",
            "take time, chance and order out of the check; vote where a judge must decide",
        ),
        _Defect(
            "D11",
            "leaked answer",
            "to look for the answer instead of working it out",
            "keep keys in `task.key`; take answers out of files, history, variables and tool results",
        ),
        _Defect(
            "D12",
            "contamination",
            "the test: held-out tasks ask what training tasks ask",
            "split by what is asked, not by id; draw held-out tasks from another range",
        ),
        _Defect(
            "D13",
            "unsolvable task",
            "that trying is useless",
            "make the golden solution reach full marks through the tools an agent has, well within the limits",
        ),
        _Defect(
            "D14",
            "guessable task",
            "to guess",
            "ask for more than one of a few answers, or balance them and score below chance as nothing",
        ),
        _Defect(
            "D15",
            "hidden requirement",
            "to guess what the grader wants",
            "say in the prompt whatever the checks ask for: names, formats, tolerances",
        ),
        _Defect(
            "D16",
            "unstable judge",
            "noise, or to please the judge: order, length and chance decide",
            "ask one exact question at temperature 0, vote, and keep a judge only while it agrees with people",
        ),
        _Defect(
            "D17",
            "outside dependence",
            "what was true on another day or another machine",
            "take time, randomness, locale and the network from the task's data",
        ),
        _Defect(
            "D18",
            "interference",
            "that what it did had effects it did not have: neighbours share something",
            "no module state, fixed ports, fixed paths on the host, working directory or environment variables",
        ),
        _Defect(
            "D19",
            "hidden observation",
            "to guess what was cut away",
            "mark every cut, offer paging, and keep what the task needs within the limit",
        ),
        _Defect(
            "D20",
            "token drift",
            "on tokens the model never sees when it works",
            "run `sandlot tokens` and the renderer's self-test before training",
        ),
        _Defect(
            "D21",
            "dead criterion",
            "nothing: a check says the same whatever was done",
            "make each check fail for some wrong solution, or take it out",
        ),
        _Defect(
            "D22",
            "answer matching",
            "spelling instead of meaning, or that near is right",
            "compare values, not texts: parse numbers, units, sets and dates, and refuse what is not the same",
        ),
        _Defect(
            "D23",
            "survivor bias",
            "from what is left when hard rollouts fail and are left out",
            "find what makes them fail; until then look at the excluded share by length",
        ),
    )
}
