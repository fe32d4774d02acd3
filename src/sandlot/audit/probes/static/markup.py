"""D20: chat markup in prompts, which the renderer adds to every message by itself.

The model then reads the start of a turn twice, or tokens of another model family that it does not know. Only marks that begin or
end a turn count.
"""

import re

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Severity, Witness, make_finding

_TURNS = re.compile(
    r"<\|(?:im_start|im_end|im_sep|eot_id|eom_id|begin_of_text|end_of_text|start_header_id|end_header_id|endoftext|user|assistant"
    r"|system|end|start|message|channel|return|turn)\|>"
    r"|<(?:start|end)_of_turn>|\[/?INST\]|<</?SYS>>|<\uff5c[^|\uff5c\n]{1,40}\uff5c>"
)


async def _look(case: Case) -> list[Finding]:
    """Prompts and tool descriptions contain no chat markup."""
    said = case.description
    words = {"system prompt": said.system} | {f"tool {tool.name}": tool.description for tool in said.tools}
    prompts = {task.id: task.prompt for task in said.tasks}
    in_words = [(place, match.group()) for place, text in words.items() if (match := _TURNS.search(text))]
    in_prompts = [(task, match.group()) for task, text in prompts.items() if (match := _TURNS.search(text))]
    found: list[Finding] = []
    if in_words:
        place, mark = in_words[0]
        found.append(_finding(f"the {place} contains chat markup: `{mark}`", words[place], mark, len(in_words), None))
    if in_prompts:
        task, mark = in_prompts[0]
        title = f"{len(in_prompts)} of {len(prompts)} prompts contain chat markup, for example `{mark}`"
        found.append(_finding(title, prompts[task], mark, len(in_prompts), task))
    return found


def _finding(title: str, text: str, mark: str, count: int, task: str | None) -> Finding:
    marks = _TURNS.findall(text)
    witness = Witness(
        inputs={"text": text[:400], "marks": sorted(set(marks))},
        expected="plain text: the renderer adds the markup",
        observed=f"{len(marks)} marks of a chat template, the first `{mark}`",
    )
    sure = len(marks) > 1  # a single mark may be a quotation
    severity = Severity.HIGH if sure else Severity.LOW
    fix = "write prompts without markup; the renderer adds the model's own"
    return make_finding("D20.markup", title, witness, severity=severity, sure=sure, task=task, count=count, fix=fix)


PROBE = Probe("chat-markup", Layer.STATIC, ("D20",), _look)
