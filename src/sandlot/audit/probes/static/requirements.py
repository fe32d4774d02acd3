"""D15: what checks require and the agent cannot know.

Read are the literals that a check compares with the agent's text or files: parts of texts, file names, arguments of a rubric. A
literal that is in no prompt, system prompt, tool, file or data of most tasks is a lead, because the agent would have to guess it.
The literals of a rubric are searched only in the tasks that it grades. Text that tools and setup write counts as known, and so
does what the author declares discoverable.
"""

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import msgspec

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer, Witness, make_finding
from sandlot.audit.probes.static.code import Code, Function, Part, read_code
from sandlot.audit.probes.static.flow import Flow, Holds
from sandlot.audit.subject import Description
from sandlot.core.rubric import PythonCheck

_SHOWN = 60
"""Most tasks whose text is searched."""
_SHORTEST = 4
_PLAIN = frozenset({"none", "true", "false", "null", "utf-8", "utf8", "replace", "ignore", "strict", "nan", "inf"})
_FILES = frozenset({"read", "read_text", "exists"})
_ARGUMENTS = frozenset({"path", "text", "at", "field", "columns", "tool", "format"})
"""Arguments of rubric checks with values that an agent must match."""


@dataclass(frozen=True, slots=True)
class _Demand:
    """A literal that a check requires."""

    literal: str
    what: str
    where: str
    check: str | None
    whole: bool = False
    """True if the check only returns whether the answer equals a text with this literal."""
    rubric: str | None = None
    """The rubric that the check is in; None for code, which may grade every task."""


async def _look(case: Case) -> list[Finding]:
    """The agent can know every literal that a check requires."""
    said = case.description
    code = read_code(case)
    known = _known_to_agents(said, code)
    texts = _texts_of_tasks(said)
    found: dict[str, Finding] = {}
    for asked in [*_in_code(code, _penalties(said)), *_in_rubrics(said)]:
        words = asked.literal.strip().casefold()
        if words in found or not _matters(words) or words in known or _declared(words, said):
            continue
        tasks = texts.get(asked.rubric, [])
        blind = sum(words not in text for text in tasks)
        if blind * 2 <= len(tasks) and tasks:
            continue
        sure = asked.whole and blind == len(said.tasks) and not (said.tools or said.image or said.has_user)
        found[words] = _finding(asked, max(1, blind), sure=sure)
    return list(found.values())


def _texts_of_tasks(said: Description) -> dict[str | None, list[str]]:
    """What the agent is told, by rubric, for at most `_SHOWN` tasks each; under None, of all tasks."""
    found: dict[str | None, list[str]] = {None: []}
    for task in said.tasks:
        short = [group for group in (found[None], found.setdefault(task.rubric, [])) if len(group) < _SHOWN]
        if short:
            text = f"{task.prompt}\n{task.data}".casefold()[:200_000]
            for group in short:
                group.append(text)
    return found


def _finding(asked: _Demand, blind: int, *, sure: bool) -> Finding:
    """Confirmed if the answer must equal a text with the literal and the prompt is the only source."""
    literal = asked.literal.strip()[:60]
    witness = Witness(
        inputs={
            "literal": literal,
            "where": asked.where,
            "compared": "literals of the check with system prompt, prompts, data, tools and shipped files",
        },
        expected="the agent can know what its answer is compared with",
        observed=f"`{literal}` is in none of them for {blind} tasks",
    )
    title = f"a check requires {asked.what} `{literal}`, which is not in the prompt, tools or data"
    fix = "say it in the prompt; if a tool shows it, declare it under `discoverable`"
    return make_finding("D15.literal", title, witness, sure=sure, check=asked.check, where=asked.where, count=blind, fix=fix)


def _matters(words: str) -> bool:
    return len(words) >= _SHORTEST and words not in _PLAIN and any(letter.isalnum() for letter in words)


def _declared(words: str, said: Description) -> bool:
    return any(each.casefold() in words or words in each.casefold() for each in said.declared.discoverable)


def _known_to_agents(said: Description, code: Code) -> str:
    """All text that an agent can read in any task."""
    tools = msgspec.json.encode([[tool.name, tool.description, tool.parameters] for tool in said.tools]).decode()
    shown = [said.system, tools, *said.material.values()]
    working = {function.module.path for function in code.functions if function.parts}
    shown += [text for path, text in said.sources.items() if path not in working and not path.startswith(("rubrics/", "tasks/"))]
    for function in code.working_in(Part.TOOL, Part.SETUP, Part.USER):
        if function.marked == frozenset({Part.CHECK}) or {Part.TASKS, Part.CHECK} <= function.marked:
            continue  # a check, or an environment of one function, whose literals count only if they are in its prompts
        shown += [node.value for node in function.nodes() if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return "\n".join(shown).casefold()


# -- code --------------------------------------------------------------------------------------------------------------


def _penalties(said: Description) -> set[str]:
    """Names of the functions that only take points away: what they look for is not required."""
    checks = [check for rubric in said.rubrics.values() for check in rubric.checks if isinstance(check, PythonCheck)]
    paying = {check.ref.rpartition(":")[2] for check in checks if check.points >= 0}
    return {check.ref.rpartition(":")[2] for check in checks} - paying


def _in_code(code: Code, penalties: Collection[str]) -> Iterator[_Demand]:
    flow = Flow(code)
    for function in code.working_in(Part.CHECK):
        if function.name in penalties:
            continue
        name = function.name if Part.CHECK in function.marked else None
        returned = [node.value for node in function.nodes() if isinstance(node, ast.Return)]
        for node in function.nodes():
            equals = isinstance(node, ast.Compare) and [type(operator) for operator in node.ops] == [ast.Eq]
            whole = name is not None and equals and returned == [node]
            for literal, what in _literals(function, node, flow):
                yield _Demand(literal, what, f"{function.module.path}:{getattr(node, 'lineno', 1)}", name, whole)


def _literals(function: Function, node: ast.AST, flow: Flow) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        said = [bool(Holds.TEXT in flow.of(function, side)) for side in sides]
        if any(said):
            for side, is_text in zip(sides, said, strict=True):
                if not is_text:
                    yield from ((text, "the text") for text in _texts(side))
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not node.args:
        return
    first = node.args[0]
    literal = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
    held = flow.of(function, node.func.value)
    if node.func.attr in _FILES and Holds.EVIDENCE in held and literal:
        yield literal, "the file"
    elif node.func.attr in {"startswith", "endswith", "removeprefix"} and Holds.TEXT in held and literal:
        yield literal, "the text"


def _texts(node: ast.AST) -> Iterator[str]:
    """Literal texts in an expression: constants, and the fixed parts of f-strings."""
    match node:
        case ast.Constant(value=str() as text):
            yield text
        case ast.JoinedStr():
            yield from (part.value for part in node.values if isinstance(part, ast.Constant) and isinstance(part.value, str))
        case ast.Call(func=ast.Attribute()) if isinstance(node.func, ast.Attribute):
            yield from _texts(node.func.value)
        case ast.BinOp(op=ast.Add()):
            yield from _texts(node.left)
            yield from _texts(node.right)
        case ast.Tuple() | ast.List() | ast.Set():
            if len(node.elts) == 1:  # several are alternatives, not a requirement
                yield from _texts(node.elts[0])
        case _:
            return


# -- rubrics -----------------------------------------------------------------------------------------------------------


def _in_rubrics(said: Description) -> Iterator[_Demand]:
    for name, rubric in said.rubrics.items():
        for check in rubric.checks:
            if not isinstance(check, PythonCheck) or check.points < 0:
                continue
            for argument, value in check.args.items():
                if argument in _ARGUMENTS and isinstance(value, str) and not value.startswith("$"):
                    pieces = [value] if "/" in value else re.split(r"[.\s]+", value)
                    for piece in pieces:
                        if not piece.isdecimal():
                            yield _Demand(piece, f"the {argument}", f"rubric {name}", check.id, rubric=name)


PROBE = Probe("hidden-literals", Layer.STATIC, ("D15",), _look)
