"""A small environment in a folder, with a rubric file that a page can edit."""

import json
from pathlib import Path

ATTACK = "</textarea><script>document.title='owned'</script><img src=x onerror=document.title='owned'>"
RUBRIC = """{
  "format": 1,
  "checks": [
    {"kind": "python", "id": "right",   "ref": "checks:right", "points": 3},
    {"kind": "python", "id": "short", "ref": "sandlot:answer_matches", "args": {"pattern": "^.{1,40}$"}, "tags": ["form"]}
  ]
}
"""
POLITE = {"kind": "judge", "id": "polite", "prompt": f"It is polite. {ATTACK}", "points": 2}
ODD = {"kind": "judge", "id": "odd", "prompt": "\n kept \r\n", "choices": ["no, never", "yes"], "points": 0.12345678901}
JUDGED = json.dumps({"format": 1, "checks": [POLITE, {**ODD, "examples": [{"view": "\n a\r\n", "verdict": "yes"}]}]})
"""The second check has values that a field of a page cannot show exactly."""


def write_environment(folder: Path) -> Path:
    """Write it into a folder that does not exist yet."""
    (folder / "rubrics").mkdir(parents=True)
    (folder / "tasks").mkdir()
    (folder / "environment.toml").write_text('name = "sums"\n')
    (folder / "tasks" / "train.jsonl").write_text(
        "".join(
            json.dumps({"id": f"sum-{n}", "prompt": f"{n} + 1? {ATTACK}", "key": {"sum": str(n + 1)}}) + "\n" for n in range(6)
        )
    )
    (folder / "checks.py").write_text(
        "def right(evidence, task):\n    return evidence.answer.split()[-1] == task.key['sum'], evidence.answer\n"
    )
    (folder / "solution.py").write_text(
        "async def solve(agent, task):\n    odd = int(task.key['sum']) % 2\n"
        "    await agent.say(('It is after long thought, all things considered: ' if odd else '') + task.key['sum'])\n"
    )
    (folder / "rubrics" / "default.json").write_text(RUBRIC)
    (folder / "rubrics" / "judged.json").write_text(JUDGED)
    return folder


SHOP = """
from sandlot import Environment, Persona, Task

env = Environment("shop")


@env.tasks
def tasks(rng):
    yield Task("buy", prompt="Sell something.")


@env.persona
def customer(task):
    return Persona(goal="Buy tea.")


@env.check(points=1)
def spoke(evidence, task):
    return bool(evidence.answer)
"""
"""One file, whose agent talks with a persona."""
