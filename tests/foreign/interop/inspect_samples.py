"""Evals of Inspect that leave logs of every kind: plain, with tools, with errors, at a limit, with images."""

import base64
import struct
import zlib

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser, ContentImage, ContentText, ModelOutput, ModelUsage
from inspect_ai.scorer import Score, includes, match, mean, scorer
from inspect_ai.solver import generate, solver, system_message, use_tools
from inspect_ai.tool import ToolError, tool


def used(output):
    """Without a usage, `mockllm` would download a tokenizer to count."""
    output.usage = ModelUsage(input_tokens=10, output_tokens=5, total_tokens=15)
    return output


def say(text):
    return used(ModelOutput.from_content("mockllm/model", text))


def call(name, **arguments):
    return used(ModelOutput.for_tool_call("mockllm/model", name, arguments))


def png():
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 14)) + chunk(b"IEND", b"")


@tool
def add():
    async def execute(x: int, y: int) -> str:
        """Add two numbers.

        Args:
            x: First.
            y: Second.
        """
        if x < 0:
            raise ToolError("no negative numbers")
        return str(x + y)

    return execute


@scorer(metrics=[mean()])
def length():
    async def score(state, target):
        return Score(value=len(state.output.completion))

    return score


@scorer(metrics=[mean()])
def half_missing():
    async def score(state, target):
        return Score(value=float("nan") if state.sample_id == 1 else 0.25)

    return score


@scorer(metrics={"a": [mean()], "b": [mean()]})
def parts():
    async def score(state, target):
        return Score(value={"a": 1, "b": "I"}, explanation="two parts")

    return score


@scorer(metrics=[mean()])
def breaks():
    async def score(state, target):
        if state.sample_id == 2:
            raise ValueError("the scorer broke")
        return Score(value="C")

    return score


@solver
def fails():
    async def solve(state, generate):
        if state.sample_id == 2:
            raise RuntimeError("the solver broke")
        return await generate(state)

    return solve


def sums(n=3):
    return [Sample(id=i, input=f"What is {i}+{i}?", target=str(2 * i), metadata={"n": i}) for i in range(1, n + 1)]


@task
def plain():
    return Task(dataset=sums(), solver=[system_message("Be short."), generate()], scorer=match())


@task
def two_scorers():
    return Task(dataset=sums(), solver=generate(), scorer=[includes(), parts()])


@task
def lengths():
    return Task(dataset=sums(), solver=generate(), scorer=length())


@task
def missing():
    return Task(dataset=sums(), solver=generate(), scorer=half_missing())


@task
def scorer_breaks():
    return Task(dataset=sums(), solver=generate(), scorer=breaks())


@task
def solver_breaks():
    return Task(dataset=sums(), solver=fails(), scorer=match())


@task
def tools():
    return Task(dataset=sums(), solver=[use_tools(add()), generate()], scorer=includes(), message_limit=12)


@task
def image():
    url = "data:image/png;base64," + base64.b64encode(png()).decode()
    content = [ContentText(text="What is this?"), ContentImage(image=url)]
    messages = [ChatMessageSystem(content="See."), ChatMessageUser(content=content)]
    return Task(dataset=[Sample(id="a/b é", input=messages, target="black")], solver=generate(), scorer=includes())
