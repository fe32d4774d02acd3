"""The author's functions that grade, where a change of a few characters may remove a defect."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sandlot.audit.finding import Finding
from sandlot.audit.probes.static.code import Code, Function, Part
from sandlot.audit.probes.static.flow import AGENT, Flow, Holds
from sandlot.audit.repair.edits import SourceText
from sandlot.audit.subject import Description


@dataclass(frozen=True, slots=True)
class GradingFunction:
    """One function that decides about points, with the text of its file."""

    source: SourceText
    function: Function
    flow: Flow
    foreign: bool
    """True for a plain grader, whose Python may not have Sandlot."""

    @property
    def file(self) -> str:
        """The path of its file."""
        return self.function.module.path

    def nodes(self) -> Iterator[ast.AST]:
        """Every node of its body."""
        return self.function.nodes()

    def from_agent(self, node: ast.AST) -> bool:
        """True if an expression may hold what the agent wrote, or something computed from it."""
        return bool(self.flow.of(self.function, node) & AGENT)

    def is_text(self, node: ast.AST) -> bool:
        """True if an expression may hold text that the agent wrote."""
        return Holds.TEXT in self.flow.of(self.function, node)

    def is_key(self, node: ast.AST) -> bool:
        """True if an expression may hold a part of the task's key."""
        return Holds.KEY in self.flow.of(self.function, node)

    @property
    def evidence(self) -> str:
        """The name of its parameter with the evidence; empty if it has none."""
        names = [each.arg for each in self.function.parameters]
        found = [name for name in names if Holds.EVIDENCE in self.flow.of(self.function, ast.Name(name, ast.Load()))]
        return found[0] if found else ""


def grading_functions(description: Description, sources: Mapping[str, str], finding: Finding) -> list[GradingFunction]:
    """The functions that a finding may be about, those it names first.

    If it names a check, that is the check and what it calls; else all checks with what they call.
    """
    code = Code(description)
    flow = Flow(code)
    checks = code.working_in(Part.CHECK)
    named = {name for name in (finding.check, *finding.paid) if name}
    marked = [each for each in checks if Part.CHECK in each.marked and (not named or named & {each.node.name, *_ids_of(each)})]
    reached = _reached(code, marked)
    texts = {path: SourceText(sources[path]) for path in {each.module.path for each in reached} if path in sources}
    foreign = description.kind == "grader"
    return [GradingFunction(texts[each.module.path], each, flow, foreign) for each in reached if each.module.path in texts]


def _reached(code: Code, first: list[Function]) -> list[Function]:
    """These functions and the author's functions that they use, each once."""
    found = list(first)
    for function in found:
        for node in function.nodes():
            if isinstance(node, ast.Name | ast.Attribute):
                found += [each for each in code.callee(function.module, node) if each not in found and Part.CHECK in each.parts]
    return found


def _ids_of(function: Function) -> Iterator[str]:
    for mark in function.node.decorator_list:
        for keyword in mark.keywords if isinstance(mark, ast.Call) else ():
            if keyword.arg == "id" and isinstance(keyword.value, ast.Constant):
                yield str(keyword.value.value)


def calls_name(node: ast.Call, *names: str) -> bool:
    """True if one of these plain names is called."""
    return isinstance(node.func, ast.Name) and node.func.id in names
