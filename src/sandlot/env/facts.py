"""What is known about an environment without running a rollout; the keys of its tasks are never shown."""

from collections import Counter
from typing import Any

from sandlot.core.rubric import Rubric
from sandlot.core.task import split_of
from sandlot.env.environment import Environment
from sandlot.env.fingerprint import environment_fingerprint, files_of
from sandlot.env.taskset import tasks_of
from sandlot.grade.rules import possible_points


def environment_facts(env: Environment) -> dict[str, Any]:
    """Everything there is to know without running it; keys are never shown."""
    tasks = tasks_of(env)
    rubrics = dict(env.marked.rubrics)
    if env.marked.checks:
        rubrics["default"] = Rubric(checks=tuple(env.marked.checks))
    return {
        "name": env.name,
        "description": env.description,
        "source": str(env.source or ""),
        "fingerprint": environment_fingerprint(env, build=False),
        "files": [name for name, _ in files_of(env)],
        "system": env.system,
        "image": env.image,
        "network": env.network,
        "seed": env.seed,
        "limits": env.limits,
        "constraints": list(env.constraints),
        "tools": [tool.spec for tool in env.tools],
        "mcp_servers": [repr(source) for source in env.marked.sources],
        "splits": dict(Counter(split_of(task).value for task in tasks)),
        "tasks": [
            {"id": task.id, "split": split_of(task), "prompt": task.prompt, "tags": task.tags, "rubric": task.rubric}
            for task in tasks
        ],
        "rubrics": {name: list(rubric.checks) for name, rubric in rubrics.items()},
        "points": {name: possible_points(rubric) for name, rubric in rubrics.items()},
        "solution": env.marked.solution is not None,
        "user": _user(env),
    }


def _user(env: Environment) -> str | None:
    """Who answers the agent's plain messages; an environment of one function asks for itself."""
    if env.marked.roles:
        return f"a model plays the role {', '.join(env.marked.roles)}, `--user MODEL`; it must be named"
    if env.marked.persona is None and env.marked.colleagues is not None:
        return "its colleagues are played by a model, `--user MODEL`; it must be named"
    if env.marked.persona is not None:
        without = "without it, the scripted replies" if env.marked.user is not None else "it must be named"
        return f"played by a model, `--user MODEL`; {without}"
    return "scripted replies" if env.marked.user is not None and env.marked.grade is None else None
