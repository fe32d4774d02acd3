"""A ladder of skills: do the scores of an environment spread, and do they grow with skill?

An agent of skill S plays the golden solution, but does each step only with probability S. A step is a tool call that clicks or
fills in something, or a statement with an effect in a Python program that it runs: a cell is not filled in, a style not set, a
button not pressed. In `terminal` a step is any call. It does not notice that it forgot something. If a page is not as expected,
it gives up and says so. In `proofs` a step is a proof of one of the file's theorems, a part of an invariant, or a line of an
answer; the prover says what is missing, so the agent ends with `not proved`.

    python benchmarks/ladder.py office          plays one task of each family at each skill, and writes the table in its README.md
    python benchmarks/ladder.py browser --print
    python benchmarks/ladder.py terminal --skills 0.95,0.75,0.5,0.25
"""

import argparse
import ast
import random
import re
import shlex
import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from report import machine, say, with_section

import sandlot
from sandlot import Agent, Environment, Scored, Task
from sandlot.core.syntax import parse_python

ROOT = Path(__file__).parents[1]
NAME = "ladder"
SKILLS = "0.95,0.8,0.5,0.2"
PROGRAM = re.compile(r"(<<'(?P<end>\w+)'\n)(?P<code>.*?)(\n(?P=end)\n)", re.DOTALL)
FORGETTABLE = re.compile(r"click|fill|type|select|press|check|dialog")
ANY_CALL = re.compile("")


@dataclass(frozen=True, slots=True)
class Rung:
    """What the agents of one skill scored."""

    skill: float
    values: list[float]

    def cells(self) -> list[str]:
        low, middle, high = statistics.quantiles(self.values, n=4, method="inclusive")
        full = sum(value == 1 for value in self.values)
        none = sum(value == 0 for value in self.values)
        levels = len({round(value, 3) for value in self.values})
        return [
            f"{self.skill:.2f}",
            f"{statistics.mean(self.values):.2f}",
            f"{low:.2f} / {middle:.2f} / {high:.2f}",
            *map(str, (none, full, levels)),
        ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("env", help="the name of a folder in environments/")
    parser.add_argument("--every", type=int, default=1, help="play one task of every Nth family [default: of each]")
    parser.add_argument(
        "--skills", default=SKILLS, help="where errands take many steps, each must be surer [default: %(default)s]"
    )
    parser.add_argument("--at-once", type=int, default=2, help="rollouts in flight; more where agents mostly wait [default: 2]")
    parser.add_argument("--print", action="store_true", help="do not write the table")
    asked = parser.parse_args()
    folder = ROOT / "environments" / asked.env
    env = sandlot.load(folder)
    chosen = one_of_each(sandlot.tasks_of(env))[:: asked.every]
    if not asked.print and f"<!-- {NAME} -->" not in (folder / "README.md").read_text():
        parser.error(
            f"{folder / 'README.md'} has no `<!-- {NAME} -->` and `<!-- /{NAME} -->` for the table; add them or use --print"
        )
    load = machine()["load"][0]
    rungs = [Rung(skill, play(env, skill, chosen, asked.at_once)) for skill in map(float, asked.skills.split(","))]
    table = table_of(rungs)
    say(table)
    if not asked.print:
        command = shlex.join(["python", "benchmarks/ladder.py", *sys.argv[1:]])
        what = f"`{command}`, {len(chosen)} tasks at each skill, load average {load} at the start:"
        page = folder / "README.md"
        page.write_text(with_section(page.read_text(), NAME, f"{what}\n\n{table}"))


def one_of_each(tasks: list[Task]) -> list[str]:
    """One task of each family, so that each level is met. A family is a first tag, or names that differ in their number."""
    families: dict[str, list[str]] = {}
    for task in tasks:
        families.setdefault(task.tags[0] if task.tags else re.sub(r"\d+$", "", task.id), []).append(task.id)
    return [family[place % len(family)] for place, family in enumerate(families.values())]


def play(env: Environment, skill: float, tasks: list[str], at_once: int) -> list[float]:
    golden: Any = env.marked.solution

    def weakened(agent: Agent, task: Task) -> Forgetful | ForgetfulProver:
        if env.name == "proofs":  # mostly all or nothing: with the same draws at each skill, less skill forgets no less
            return ForgetfulProver(agent, skill, random.Random(task.id))
        steps = ANY_CALL if env.name == "terminal" else FORGETTABLE
        return Forgetful(agent, skill, random.Random(f"{task.id} {skill}"), steps)

    async def forgetful(agent: Agent, task: Task) -> None:
        try:
            await golden(weakened(agent, task), task)
        except (LookupError, AssertionError, ValueError, RuntimeError):  # what golden looked for is not on the page
            await agent.say("The page is not as I expected; I give up here.")

    env.marked.solution = forgetful
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = sandlot.run(env, "scripted:golden", tasks=tuple(tasks), runs=Path(folder), at_once=at_once)
            outcomes = {trace.task: trace.outcome for trace in found}
    finally:
        env.marked.solution = golden
    failed = {task: outcome for task, outcome in outcomes.items() if not isinstance(outcome, Scored)}
    if failed or len(outcomes) != len(tasks):
        raise RuntimeError(f"skill {skill}: {len(outcomes)} of {len(tasks)} rollouts, without a score: {failed}")
    values = [outcome.score.value for outcome in outcomes.values() if isinstance(outcome, Scored)]
    say(f"skill {skill}: mean {statistics.mean(values):.3f}")
    return values


class Forgetful:
    """The agent, with steps left out."""

    def __init__(self, agent: Agent, skill: float, rng: random.Random, steps: re.Pattern[str]) -> None:
        self._agent, self._skill, self._rng, self._steps = agent, skill, rng, steps
        self._seen = ""

    async def call(self, tool: str, /, **arguments: Any) -> str:
        if self._steps.search(tool) and self._rng.random() >= self._skill:
            return self._seen
        command = arguments.get("command")
        if isinstance(command, str) and self._steps is not ANY_CALL:
            arguments["command"] = PROGRAM.sub(self._shortened, command)
        self._seen = await self._agent.call(tool, **arguments)
        return self._seen

    async def say(self, text: str) -> None:
        await self._agent.say(text)

    def _shortened(self, found: re.Match[str]) -> str:
        tree = _Forgetting(self._skill, self._rng).visit(parse_python(found["code"]))
        return f"{found[1]}{ast.unparse(ast.fix_missing_locations(tree))}{found[4]}"


THEOREM = re.compile(r"Theorem .*?Qed\.\n?", re.DOTALL)


class ForgetfulProver:
    """The agent in `proofs`, with parts of what it hands in left out."""

    def __init__(self, agent: Agent, skill: float, rng: random.Random) -> None:
        self._agent, self._skill, self._rng, self._whole = agent, skill, rng, True

    async def call(self, tool: str, /, **arguments: Any) -> str:
        if tool == "check_proof":
            arguments["text"] = THEOREM.sub(lambda found: self._kept(found[0]), arguments["text"])
        elif tool == "submit":
            arguments["text"] = self._shortened(arguments["text"])
        return await self._agent.call(tool, **arguments)

    async def say(self, text: str) -> None:
        await self._agent.say(text if self._whole else "not proved")

    def _kept(self, part: str) -> str:
        forgotten = self._rng.random() >= self._skill
        self._whole = self._whole and not forgotten
        return "" if forgotten else part

    def _shortened(self, text: str) -> str:
        """An invariant without some of its conditions, an answer without some of its lines."""
        if text.startswith("(and "):
            return f"(and true {''.join(map(self._kept, _parts_of(text)))})"
        return "".join(map(self._kept, text.splitlines(keepends=True)))


def _parts_of(formula: str) -> list[str]:
    """The conditions of `(and A B ...)`."""
    parts, depth = [""], 0
    for letter in formula.removeprefix("(and ").removesuffix(")"):
        depth += (letter == "(") - (letter == ")")
        parts[-1] += letter
        if letter == ")" and not depth:
            parts.append("")
    return [part for part in parts if part.strip()]


class _Forgetting(ast.NodeTransformer):
    """Leaves out statements with an effect; what saves the file, and what is in functions, is never left out."""

    def __init__(self, skill: float, rng: random.Random) -> None:
        self._skill, self._rng = skill, rng

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.stmt:
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        return node

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        saves = isinstance(node.value, ast.Call) and "save" in ast.unparse(node.value.func)
        return node if saves else self._kept(node)

    def visit_Assign(self, node: ast.Assign) -> ast.stmt:
        has_effect = all(isinstance(target, ast.Subscript | ast.Attribute) for target in node.targets)
        return self._kept(node) if has_effect else node

    def _kept(self, node: ast.stmt) -> ast.stmt:
        return node if self._rng.random() < self._skill else ast.Pass()


def table_of(rungs: list[Rung]) -> str:
    head = ["skill", "mean score", "quartiles", "tasks with 0", "tasks with full marks", "different scores"]
    lines = [head, ["---"] * len(head), *[rung.cells() for rung in rungs]]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


if __name__ == "__main__":
    main()
