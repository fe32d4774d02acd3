"""What a person must decide where no mechanical change removes a defect."""

from sandlot.audit.finding import Finding

_DECIDE = {
    "D01": "what a tool shows after a change: read the state at every call, or put its version into the cache key",
    "D02": "what only real work leaves behind, and compare that instead of what was paid here",
    "D03": "which extracted fields the judge may see, and which fact is checked without it",
    "D04": "whether the error is the agent's (not met) or the grader's (no score)",
    "D05": "where the state that outlives a rollout belongs in `setup`",
    "D06": "how many points each step is worth",
    "D07": "which real data the fields are drawn from",
    "D08": "which of schema, handler, prompt and production is right",
    "D09": "what an answer that cannot be read is worth",
    "D10": "which rule replaces chance, time or memory in the check",
    "D11": "where the answer is kept, out of the agent's reach",
    "D12": "which questions are held out",
    "D13": "whether the golden solution, the limits or the check is wrong",
    "D14": "how the answers are balanced, or what is asked instead of a choice",
    "D15": "whether the prompt states the requirement or the check drops it",
    "D16": "which exact question the judge answers",
    "D17": "which value in the task's data replaces the machine's",
    "D18": "where the shared state of two rollouts is separated",
    "D19": "how what was cut can be read",
    "D20": "which text of the prompt is markup",
    "D21": "which field the check should read, or that it goes",
    "D22": "which spellings and values count as right",
    "D23": "why hard rollouts fail",
}


def decision_for(finding: Finding, tried: int, closest: str) -> str:
    """One sentence: what was tried, why it was refused, and what a person must decide."""
    what = _DECIDE.get(finding.code.partition(".")[0], "what the environment should do instead")
    if not tried:
        return f"no mechanical change is known; a person must decide {what}"
    shown = f"{tried} changes were" if tried > 1 else "one change was"
    return f"{shown} tried and refused ({closest}); a person must decide {what}"
