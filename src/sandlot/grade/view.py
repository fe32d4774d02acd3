"""What a judge is shown: named parts of the evidence as text."""

import json
from collections.abc import Mapping

import msgspec

from sandlot.ports import Evidence
from sandlot.rubric import JudgeCheck
from sandlot.trace import Image, Reasoning, Tensor, Text, ToolCall, Trace
from sandlot.types import Json


def view_of(check: JudgeCheck, evidence: Evidence) -> Mapping[str, str]:
    """The parts a check names, in its order. `NotInEvidence` for a file that is not there or is not text."""
    return {name: _part(name, evidence) for name in check.view}


def transcript(trace: Trace) -> str:
    """The conversation as text: what was said, called and answered. Reasoning is left out: it is not addressed to anyone."""
    lines: list[str] = []
    for node in trace.path():
        for part in node.message.parts:
            if isinstance(part, Text):
                lines.append(f"{node.message.role.value}: {part.text}")
            elif isinstance(part, ToolCall):
                arguments = part.malformed if part.malformed is not None else _written(part.arguments)
                lines.append(f"{node.message.role.value} calls {part.name}({arguments})")
            elif isinstance(part, Image | Tensor):
                lines.append(f"{node.message.role.value}: [{type(part).__name__.lower()}]")
            elif not isinstance(part, Reasoning):
                lines.append(f"{'error' if part.error else 'result'}: {part.text}")
    return "\n".join(lines)


def _written(arguments: Json) -> str:
    """Arguments as JSON, whatever an agent put into them."""
    try:
        return json.dumps(arguments, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return "(arguments that cannot be shown)"


def _part(name: str, evidence: Evidence) -> str:
    if name == "answer":
        return evidence.answer
    if name == "state":
        return msgspec.json.format(msgspec.json.encode(evidence.record.state, order="deterministic")).decode()
    if name == "transcript":
        return transcript(evidence.trace)
    return evidence.read_text(name)
