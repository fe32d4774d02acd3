"""How far an agent's hands reach: whether it can run commands and write files, and what the golden solution changes.

Nothing here goes by names. A tool is a shell if it computes; a call wrote a file if the text it carried is what lies in that file
afterwards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sandlot.audit.case import Case, script_of
from sandlot.audit.probes.likeness import MISSING, changes_between, leaves, left_behind, observations
from sandlot.audit.subject import Act, Call, Say, Script, Take, Trial
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.types import Json

_SUM = "echo sandlot-$((41+1))"
_SUM_SHOWN = "sandlot-42"
_MIN_TEXT = 4
"""A shorter text is found in many places by chance."""


@dataclass(frozen=True, slots=True)
class WriteCall:
    """A call that puts a text into a file, to be filled in."""

    call: Call
    path: str
    text: str
    """Names of the two arguments."""

    def put(self, path: str, text: str) -> Call:
        """The call that writes this file."""
        return Call(self.call.tool, {**self.call.arguments, self.path: path, self.text: text})


@dataclass(frozen=True, slots=True)
class Shell:
    """A tool that runs commands."""

    tool: str
    argument: str

    def run(self, command: str) -> Call:
        """The call that runs it."""
        return Call(self.tool, {self.argument: command})

    def put(self, path: str, text: str) -> Call:
        """The call that writes this file."""
        folder = path.rpartition("/")[0] or "/"
        return self.run(f"mkdir -p {_quoted(folder)} && printf '%s' {_quoted(text)} > {_quoted(path)}")


@dataclass(frozen=True, slots=True)
class GoldenWork:
    """One task as its golden solution works it, beside the same task left alone."""

    task: Task
    golden: Trial
    idle: Trial
    writer: WriteCall | Shell | None = None
    shell: Shell | None = None

    @property
    def script(self) -> Script:
        """What the golden solution did."""
        return script_of(self.golden, "golden")

    @property
    def calls(self) -> list[Call]:
        """Its calls, in order."""
        return [act for act in self.acts if isinstance(act, Call)]

    @property
    def acts(self) -> list[Act]:
        """Everything it did, turns aside."""
        return [act for turn in self.script.turns for act in turn]

    @property
    def last_words(self) -> str:
        """What it said at the end; empty if it ended with a call."""
        last = self.acts[-1] if self.acts else Say("")
        return last.text if isinstance(last, Say) else ""

    @property
    def before(self) -> dict[str, Any]:
        """The world left alone, leaf by leaf."""
        return leaves(left_behind(self.idle))

    @property
    def changes(self) -> dict[str, Any]:
        """What it changed in the world, leaf by leaf."""
        return changes_between(self.idle, self.golden)

    def undone(self, trial: Trial) -> dict[str, Any]:
        """Of what golden changed, what another trial left as it was; values as golden left them."""
        alone, now = self.before, leaves(left_behind(trial))
        return {where: value for where, value in self.changes.items() if alone.get(where, MISSING) == now.get(where, MISSING)}

    @property
    def files(self) -> dict[str, str]:
        """The files setup made, as texts."""
        return left_behind(self.idle)["files"]

    @property
    def written(self) -> dict[str, str]:
        """The files golden made or changed, as it left them."""
        before = self.files
        return {path: text for path, text in left_behind(self.golden)["files"].items() if before.get(path) != text}


async def find_works(case: Case, tasks: Sequence[Task]) -> list[GoldenWork]:
    """The golden solution of each task beside doing nothing, where both came to a score; with what its hands reach."""
    golden, idle = await case.golden(), await case.idle()
    found = [
        GoldenWork(task, golden[task.id], idle[task.id])
        for task in tasks
        if task.id in golden and golden[task.id].passed and idle[task.id].reward is not None
    ]
    shell = await _find_shell(case, found)
    return [replace(work, shell=shell, writer=shell or _find_writer(work)) for work in found]


async def _find_shell(case: Case, found: Sequence[GoldenWork]) -> Shell | None:
    """The tool that computes what it is given as a command, if there is one."""
    if not found:
        return None
    takers = [(spec, name) for spec in case.description.tools if (name := only_text(spec)) is not None]
    requests = [
        Take(task=found[0].task.id, play=Script(name="compute", turns=((Call(spec.name, {name: _SUM}),),)), seed=case.seed)
        for spec, name in takers
    ]
    for (spec, name), trial in zip(takers, await case.take(requests), strict=True):
        if any(_SUM_SHOWN in shown.text and _SUM not in shown.text for shown in observations(trial)):
            return Shell(spec.name, name)
    return None


def only_text(spec: ToolSpec) -> str | None:
    """The name of the one argument a tool needs, if it is a text."""
    required = required_of(spec)
    properties = properties_of(spec)
    if len(required) != 1 or properties.get(required[0], {}).get("type") != "string":
        return None
    return required[0] if "enum" not in properties[required[0]] else None


def required_of(spec: ToolSpec) -> list[str]:
    """Arguments that must be given."""
    return list(spec.parameters.get("required") or [])


def properties_of(spec: ToolSpec) -> Mapping[str, Json]:
    """Schemas of a tool's arguments."""
    return spec.parameters.get("properties") or {}


def _find_writer(work: GoldenWork) -> WriteCall | None:
    """A golden call whose text lies in the file it names afterwards."""
    files: dict[str, str] = left_behind(work.golden)["files"]
    for call in work.calls:
        texts = {name: value for name, value in call.arguments.items() if isinstance(value, str)}
        for path_name, path in texts.items():
            there = files.get(path if path.startswith("/") else f"/{path}")
            for text_name, text in texts.items():
                if there is not None and text_name != path_name and len(text) >= _MIN_TEXT and there.strip() == text.strip():
                    return WriteCall(call, path_name, text_name)
    return None


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"
