"""What an agent can do here: run commands, write files; and what the golden solution changes.

Names do not count. A tool is a shell if it computes a sum; a call writes a file if its text is in that file afterwards.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from sandlot.audit.case import Case, script_of
from sandlot.audit.probes.likeness import changes_between, leaves, left_behind, observations, unchanged_files
from sandlot.audit.probes.plays import choose_tasks, request_for
from sandlot.audit.subject import Act, Call, Say, Script, Trial
from sandlot.core.ports.world import ToolSpec
from sandlot.core.task import Task
from sandlot.core.types import Json

_SUM = "echo sandlot-$((41+1))"
_SUM_SHOWN = "sandlot-42"
_MIN_TEXT = 4
"""Shorter texts match by chance."""


@dataclass(frozen=True, slots=True)
class WriteCall:
    """A tool call that writes a text to a file."""

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
        """The call that runs a command."""
        return Call(self.tool, {self.argument: command})

    def put(self, path: str, text: str) -> Call:
        """The call that writes this file."""
        folder = path.rpartition("/")[0] or "/"
        return self.run(f"mkdir -p {_quoted(folder)} && printf '%s' {_quoted(text)} > {_quoted(path)}")


@dataclass(frozen=True)
class GoldenWork:
    """A task with the trial of its golden solution and the trial of an agent that did nothing.

    What the trials left is read once: it may be a whole repository, and probes ask for it once per file.
    """

    task: Task
    golden: Trial
    idle: Trial
    writer: WriteCall | Shell | None = None
    shell: Shell | None = None

    @property
    def script(self) -> Script:
        """What the golden solution did, as a script."""
        return script_of(self.golden, "golden")

    @property
    def calls(self) -> list[Call]:
        """The golden solution's calls, in order."""
        return [act for act in self.acts if isinstance(act, Call)]

    @property
    def acts(self) -> list[Act]:
        """The golden solution's acts, in order."""
        return [act for turn in self.script.turns for act in turn]

    @property
    def last_words(self) -> str:
        """The golden solution's final message; empty if it ended with a call."""
        last = self.acts[-1] if self.acts else Say("")
        return last.text if isinstance(last, Say) else ""

    @cached_property
    def before(self) -> dict[str, Any]:
        """The final state and files if nothing is done, by path."""
        return leaves(left_behind(self.idle))

    @cached_property
    def changes(self) -> dict[str, Any]:
        """What the golden solution changed in the world, by path."""
        return changes_between(self.idle, self.golden)

    def undone(self, trial: Trial) -> dict[str, Any]:
        """What golden changed and another trial did not, with golden's values."""
        changed = changes_between(self.idle, trial)
        return {where: value for where, value in self.changes.items() if where not in changed}

    @cached_property
    def files(self) -> dict[str, str]:
        """The files that setup made, as texts."""
        return left_behind(self.idle)["files"]

    @cached_property
    def written(self) -> dict[str, str]:
        """The files that golden made or changed, as texts."""
        same = unchanged_files(self.idle, self.golden)
        before, after = (left_behind(trial, without=same)["files"] for trial in (self.idle, self.golden))
        return {path: text for path, text in after.items() if before.get(path) != text}


async def find_works(case: Case, tasks: Sequence[Task]) -> list[GoldenWork]:
    """The tasks whose golden solution passes and whose idle trial has a score."""
    golden, idle = await case.golden(), await case.idle()
    found = [
        GoldenWork(task, golden[task.id], idle[task.id])
        for task in tasks
        if task.id in golden and golden[task.id].passed and idle[task.id].reward is not None
    ]
    shell = await _find_shell(case, found)
    return [replace(work, shell=shell, writer=shell or _find_writer(work)) for work in found]


async def find_works_to_do(case: Case, most: int, sandboxed: int) -> list[GoldenWork]:
    """The same for up to `most` chosen tasks (`sandboxed` in a sandbox), without those where doing nothing is right."""
    return [
        work for work in await find_works(case, choose_tasks(case, most, sandboxed=sandboxed)) if not case.may_idle(work.task)
    ]


async def _find_shell(case: Case, found: Sequence[GoldenWork]) -> Shell | None:
    """The tool that runs shell commands, if there is one."""
    if not found:
        return None
    takers = [(spec, name) for spec in case.description.tools if (name := only_text(spec)) is not None]
    requests = [
        request_for(case, found[0].task, Script(name="compute", turns=((Call(spec.name, {name: _SUM}),),)))
        for spec, name in takers
    ]
    for (spec, name), trial in zip(takers, await case.take(requests), strict=True):
        if any(_SUM_SHOWN in shown.text and _SUM not in shown.text for shown in observations(trial)):
            return Shell(spec.name, name)
    return None


def only_text(spec: ToolSpec) -> str | None:
    """The name of a tool's only required argument, if it is a free text."""
    required = required_of(spec)
    properties = properties_of(spec)
    if len(required) != 1 or properties.get(required[0], {}).get("type") != "string":
        return None
    return required[0] if "enum" not in properties[required[0]] else None


def required_of(spec: ToolSpec) -> list[str]:
    """Names of the required arguments."""
    return list(spec.parameters.get("required") or [])


def properties_of(spec: ToolSpec) -> Mapping[str, Json]:
    """Schemas of a tool's arguments."""
    return spec.parameters.get("properties") or {}


def _find_writer(work: GoldenWork) -> WriteCall | None:
    """A golden call after which the file it names holds its text."""
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
