"""Tasks that ask models in roles: a grader, an expert whom a tool asks, and two at once."""

import anyio
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import get_model
from inspect_ai.scorer import Score, accuracy, includes, model_graded_qa, scorer
from inspect_ai.solver import generate, solver, use_tools
from inspect_ai.tool import tool

SAMPLES = [Sample(id="[a]x|y:1", input="What is 1+1?", target="2"), Sample(id="*", input="What is 2+2?", target="4")]


@tool
def ask_expert():
    async def execute(question: str) -> str:
        """Ask an expert.

        Args:
            question: What to ask.
        """
        return (await get_model(role="expert").generate(question)).completion

    return execute


@solver
def two_at_once():
    async def solve(state, generate):
        found = {}

        async def ask(role):
            found[role] = (await get_model(role=role).generate(f"Who are you, {role}?")).completion

        async with anyio.create_task_group() as group:
            for role in ("left", "right"):
                group.start_soon(ask, role)
        state.user_prompt.text = f"{found['left']} and {found['right']}"
        return await generate(state)

    return solve


@scorer(metrics=[accuracy()])
def forgiving():
    async def score(state, target):
        try:
            await get_model().generate("Is it right?")
        except Exception:  # noqa: BLE001 - as scorers in inspect-evals do
            return Score(value=1)
        return Score(value=0)

    return score


@scorer(metrics=[accuracy()])
def remembering():
    async def score(state, target):
        grade = (await get_model(role="grader").generate("Is it right?", cache=True)).completion
        return Score(value=grade.endswith("C"))

    return score


@task
def forgiven():
    return Task(dataset=SAMPLES, solver=generate(), scorer=forgiving())


@task
def remembered():
    return Task(dataset=SAMPLES, solver=generate(), scorer=remembering())


@task
def graded():
    return Task(dataset=SAMPLES, solver=generate(), scorer=model_graded_qa())


@task
def advised():
    return Task(dataset=SAMPLES, solver=[use_tools(ask_expert()), generate()], scorer=includes())


@task
def both():
    return Task(dataset=SAMPLES, solver=two_at_once(), scorer=includes())
