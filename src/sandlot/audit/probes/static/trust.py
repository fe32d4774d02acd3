"""D02 and D03 in code: checks that trust what the agent wrote.

They evaluate it, search for the key anywhere in it, trust an exit status or a report, or paste it into a judge's prompt.
`flow.py` follows the agent's text to the verdict.
"""

import ast
import re
from collections.abc import Iterator

from sandlot.audit.finding import Severity
from sandlot.audit.probes.static.code import Code, Function, Part, method_called, names_in
from sandlot.audit.probes.static.flow import AGENT, Flow, Holds
from sandlot.audit.probes.static.sighting import Sighting, code_probe, sighting_at

_EVALUATES = re.compile(
    r"eval|exec|compile|builtins\.(eval|exec)|os\.(system|popen)|pickle\.loads?|marshal\.loads|dill\.loads?|jsonpickle\.decode"
    r"|sympy(\.\w+)*\.(sympify|parse_expr|S)|(sympify|parse_expr)|numexpr\.evaluate|importlib\.import_module|__import__"
)
_SHELLS = re.compile(r"subprocess\.(run|call|check_call|check_output|Popen|getoutput|getstatusoutput)")
_PROGRAMS = re.compile(r"/(bin|sbin|lib\w*)/|site-packages|dist-packages|\.pth$|customize\.py$|ld\.so|\.(bashrc|profile)$")
_STATUS = frozenset({"code", "returncode", "exit_code", "exitcode"})


def _look(code: Code) -> Iterator[Sighting]:
    """No check trusts or runs the agent's text."""
    flow = Flow(code)
    checks = code.working_in(Part.CHECK)
    for function in {*checks, *code.working_in(Part.TOOL)}:
        for node in function.nodes():
            if isinstance(node, ast.Call):
                yield from _evaluated(function, node, flow)
    for function in checks:
        verdicts = list(verdicts_of(function))
        for node in (inner for verdict in verdicts for inner in ast.walk(verdict)):
            if isinstance(node, ast.Compare):
                yield from _substring(function, node, flow)
            yield from _status(function, node)
        for node in function.nodes():
            if isinstance(node, ast.Call):
                yield from _pasted(function, node, flow)
                yield from _own_interpreter(function, node)
    yield from _reports(code)


def _evaluated(function: Function, node: ast.Call, flow: Flow) -> Iterator[Sighting]:
    name = function.module.full_name(node.func)
    given = Holds.NOTHING
    for argument in node.args:
        given |= flow.of(function, argument)
    if not given & AGENT:
        return
    unsafe = bool(_EVALUATES.fullmatch(name)) or (name in {"yaml.load", "yaml.unsafe_load"} and "Safe" not in ast.unparse(node))
    shell = _SHELLS.fullmatch(name) and any(each.arg == "shell" and ast.unparse(each.value) == "True" for each in node.keywords)
    if unsafe or shell:
        title = f"runs the agent's text on the host with `{name}`"
        fix = "parse it as data (`ast.literal_eval`, `json`, `float`), or run it in `evidence.grading_sandbox()`"
        yield sighting_at(function, node, "D02.eval_on_output", title, fix)


# -- verdicts ----------------------------------------------------------------------------------------------------------


def verdicts_of(function: Function) -> Iterator[ast.expr]:
    """The values a check returns or scores, and the values of the names in them."""
    wanted = [node.value for node in function.nodes() if isinstance(node, ast.Return) and node.value is not None]
    for node in function.nodes():
        if isinstance(node, ast.Call) and function.module.full_name(node.func).endswith("Score"):
            wanted += [*node.args[:1], *(keyword.value for keyword in node.keywords if keyword.arg == "value")]
    branches = [node for node in function.nodes() if isinstance(node, ast.If)]
    wanted += [branch.test for branch in branches if any(isinstance(inner, ast.Return) for inner in branch.body)]
    given = function.assigned()
    known: set[str] = set()
    while wanted:
        value = wanted.pop()
        value = value.elts[0] if isinstance(value, ast.Tuple) and value.elts else value  # (value, why)
        yield value
        for node in ast.walk(value):
            if isinstance(node, ast.Name) and node.id not in known:
                known.add(node.id)
                wanted += given.get(node.id, [])


def _substring(function: Function, node: ast.Compare, flow: Flow) -> Iterator[Sighting]:
    """`key in answer`: every answer that contains the key is right."""
    for operator, right in zip(node.ops, node.comparators, strict=True):
        if not isinstance(operator, ast.In) or Holds.TEXT not in flow.of(function, right):
            continue
        constant = isinstance(node.left, ast.Constant) and isinstance(node.left.value, str) and len(node.left.value) > 1
        padded = isinstance(node.left, ast.JoinedStr) and ast.unparse(node.left).strip("f'\"").startswith(" ")
        if Holds.KEY in flow.of(function, node.left) and not padded:
            title = "is met if the key is anywhere in the agent's text: an answer that lists every option is always right"
            yield sighting_at(function, node, "D02.substring", title, "compare the whole answer, or the one value in it")
        elif constant:
            title = f"is met by the words {ast.unparse(node.left)} anywhere in the agent's text"
            fix = "check the result itself, not the agent's claim about it"
            yield sighting_at(function, node, "D02.fake_output", title, fix, Severity.LOW)


def _status(function: Function, node: ast.AST) -> Iterator[Sighting]:
    """An exit status used as the verdict."""
    compares = isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr in _STATUS
    denies = isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Attribute) and node.operand.attr in _STATUS
    if compares or denies:
        fix = "check what was reported as well: the code under test can exit with any status"
        yield sighting_at(function, node, "D02.exit", "treats an exit status as success", fix, Severity.LOW)


def _own_interpreter(function: Function, node: ast.Call) -> Iterator[Sighting]:
    """A grading sandbox where the agent's files may replace programs of the image."""
    if method_called(node) != "grading_sandbox":
        return
    for keyword in node.keywords:
        named = [inner.value for inner in ast.walk(keyword.value) if isinstance(inner, ast.Constant)]
        programs = [path for path in named if isinstance(path, str) and _PROGRAMS.search(path)]
        listed = any(isinstance(inner, ast.Call | ast.Name) for inner in ast.walk(keyword.value))
        if keyword.arg == "replace" and (programs or listed):
            what = f"`{programs[0]}`" if programs else "files that are known only at run time"
            title = f"grades with the agent's own {what}, which can print any result"
            yield sighting_at(function, node, "D02.own_interpreter", title, "leave programs out of `replace`")


# -- reports -----------------------------------------------------------------------------------------------------------


def _reports(code: Code) -> Iterator[Sighting]:
    """A check reads a file that a tool writes and that the agent can write too, and so forge."""
    written: dict[str, Function] = {}
    writes_anywhere = False
    for tool in code.working_in(Part.TOOL):
        own = {parameter.arg for parameter in tool.parameters}
        for node in tool.nodes():
            if isinstance(node, ast.Call) and method_called(node) == "write" and len(node.args) > 1:
                path, content = node.args[0], node.args[1]
                if isinstance(path, ast.Constant) and isinstance(path.value, str) and not names_in(content) & own:
                    written[path.value] = tool
                writes_anywhere = writes_anywhere or bool(names_in(path) & own)
    if not writes_anywhere:
        return
    for check in code.working_in(Part.CHECK):
        for node in check.nodes():
            reads = method_called(node) in {"read", "read_text"}
            path = node.args[0] if reads and isinstance(node, ast.Call) and node.args else None
            if isinstance(path, ast.Constant) and path.value in written:
                title = f"trusts `{path.value}`, which `{written[path.value].name}` writes and the agent can write too"
                fix = "check the work itself, not the report about it"
                yield sighting_at(check, node, "D02.report", title, fix, Severity.LOW)


# -- judges ------------------------------------------------------------------------------------------------------------


def _pasted(function: Function, node: ast.Call, flow: Flow) -> Iterator[Sighting]:
    """The agent's text pasted into a prompt that is sent to a model."""
    if method_called(node) not in {"ask", "chat", "complete", "create", "generate", "post"}:
        return
    texts = [
        inner for argument in (*node.args, *(each.value for each in node.keywords)) for inner in _resolved(function, argument)
    ]
    for text in texts:
        mixed = isinstance(text, ast.JoinedStr) or (isinstance(text, ast.BinOp) and isinstance(text.op, ast.Add | ast.Mod))
        if (mixed or method_called(text) == "format") and flow.of(function, text) & AGENT:
            title = "pastes the agent's text into a prompt, so that it can give the judge instructions"
            fix = "use a judge check of the rubric, which passes the text as data, apart from the question"
            yield sighting_at(function, node, "D03.pasted", title, fix)
            return


def _resolved(function: Function, node: ast.expr) -> Iterator[ast.expr]:
    """An argument, and the values assigned to the names in it."""
    given = function.assigned()
    for inner in ast.walk(node):
        if isinstance(inner, ast.expr):
            yield inner
        if isinstance(inner, ast.Name):
            yield from given.get(inner.id, ())


PROBE = code_probe("trusted-words", ("D02", "D03"), _look)
