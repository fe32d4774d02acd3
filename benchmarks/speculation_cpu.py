"""Tokens per CPU-second with guesses from siblings, and without, on chores of drill."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch
from report import Row, say

from sandlot import load
from sandlot.core.task import Task, split_of
from sandlot.core.trace import Message, ToolCall, ToolResult, text_message
from sandlot.core.types import Role
from sandlot.env.taskset import tasks_of
from sandlot.model.engine.engine import Engine
from sandlot.model.engine.local import plain_runner
from sandlot.model.engine.request import Request
from sandlot.model.engine.siblings import Speculate
from sandlot.model.engine.weights import model_folder
from sandlot.model.nn.attention import causal_attend
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.folder import load_folder
from sandlot.model.nn.packed import can_add_in_fp32, pack_linears
from sandlot.model.render.open import open_renderer
from sandlot.model.render.renderer import TokenRenderer

TURNS = 4
TEMPERATURES = (1.0, 0.7)
BLOCK, CONTEXT = 16, 1024
WAYS: tuple[Speculate, ...] = ("off", "siblings")


@dataclass(frozen=True, slots=True)
class Size:
    """How much a model has to do: it must end within minutes."""

    members: int
    groups: dict[int, int]
    """By batch size."""
    most: int
    """Tokens of a turn."""
    times: int
    """How often it is measured; the least CPU-seconds count."""


SIZES = {"rookie": Size(16, {1: 1, 8: 2, 32: 4}, 64, 2), "smollm2": Size(8, {1: 1, 8: 2, 32: 8}, 32, 1)}


@dataclass(frozen=True, slots=True)
class Load:
    """First requests of rollouts of one model at one temperature, with their tasks."""

    requests: list[Request]
    tasks: list[Task]
    renderer: TokenRenderer
    batch: int

    def after(self, number: int, request: Request, ids: list[int]) -> Request | None:
        """The request of a rollout's next turn; None if it has ended."""
        calls = [part for part in self.renderer.parse(ids).parts if isinstance(part, ToolCall)]
        files: dict[str, str] = self.tasks[number].data["files"]
        results = [Message(role=Role.TOOL, parts=(ToolResult(call.id, shown(str(call.arguments), files)),)) for call in calls]
        known = [*request.ids, *ids]
        given = self.renderer.bridge(known, results) if results else None
        return None if given is None else replace(request, ids=known + given)


def shown(command: str, files: dict[str, str]) -> str:
    """What a command would print, roughly."""
    reads = [text for path, text in files.items() if path in command and ">" not in command]
    return reads[0] if reads else "(no output)"


def measured_on_cpu(only: str | None, *, small: bool) -> tuple[dict[str, Any], dict[str, Any], dict[str, float], list[Row]]:
    """(ours, without guesses, ratios, rows)."""
    torch.set_num_threads(1)
    rows: list[Row] = []
    ours: dict[str, Any] = {}
    off: dict[str, Any] = {}
    for name in (only,) if only else tuple(SIZES):
        decoder = pack_linears(load_folder(model_folder(name)))
        warm_up(decoder)
        for what, each in loads(name, small=small):
            found = measured(decoder, each, 1 if small else SIZES[name].times)
            say(f"{what}: {found}")
            ours[what], off[what] = found["siblings"], found["off"]
            rows.append(row_of(what, found))
    ratios = {what: ours[what]["tokens_per_cpu_s"] / off[what]["tokens_per_cpu_s"] for what in ours}
    return ours, {"off": off}, ratios, rows


def warm_up(decoder: Decoder) -> None:
    """Kernels are made for a size when it first occurs, and the head's are tried once."""
    can_add_in_fp32()
    with torch.inference_mode():
        for count in range(1, 81):
            ids = torch.ones(count, dtype=torch.long)
            decoder.logits(decoder(ids, torch.arange(count), causal_attend()))


def loads(name: str, *, small: bool) -> Iterator[tuple[str, Load]]:
    folder = model_folder(name)
    renderer, env = open_renderer(folder), load("drill")
    tools = [tool.spec for tool in env.tools]
    train = [task for task in tasks_of(env) if split_of(task) == "train"]
    size = SIZES[name]
    for batch, groups in islice(size.groups.items(), 1 if small else None):
        # Tasks stand in order of their skills: take them from all over.
        tasks = train[:: len(train) // groups][:groups]
        prompts = [
            renderer.render([text_message(Role.SYSTEM, env.system), text_message(Role.USER, task.prompt)], tools)
            for task in tasks
        ]
        for temperature in TEMPERATURES:
            requests = [
                Request(
                    ids=ids,
                    max_tokens=8 if small else size.most,
                    temperature=temperature,
                    seed=group * size.members + member,
                    stop_ids=tuple(renderer.stop_ids),
                    session=f"{group}.{member}",
                )
                for group, ids in enumerate(prompts)
                for member in range(size.members)
            ]
            members = [task for task in tasks for _ in range(size.members)]
            yield f"{name}, temperature {temperature:g}, batch {batch}", Load(requests, members, renderer, batch)


def measured(decoder: Decoder, load: Load, times: int) -> dict[str, dict[str, float]]:
    """Both ways, in turn."""
    found: dict[str, dict[str, float]] = {}
    answers: dict[str, list[list[int]]] = {}
    for _ in range(times):
        for way in WAYS:
            cpu_s, answers[way], metrics = played(decoder, load, way)
            if way not in found or cpu_s < found[way]["cpu_s"]:
                found[way] = {
                    "cpu_s": cpu_s,
                    "tokens_per_cpu_s": metrics["sampled_tokens"] / cpu_s,
                    "guessed": metrics["guessed_tokens"],
                    "accepted": metrics["accepted_tokens"],
                    "tokens_per_pass": metrics["tokens_per_pass"],
                    "tokens": metrics["sampled_tokens"],
                }
    same = sum(one == other for one, other in zip(answers["off"], answers["siblings"], strict=True))
    found["siblings"]["same"] = same / len(load.requests)
    return found


def played(decoder: Decoder, load: Load, way: Speculate) -> tuple[float, list[list[int]], dict[str, float]]:
    blocks = (load.batch + 1) * CONTEXT // BLOCK
    runner = plain_runner(decoder, blocks, BLOCK)
    engine = Engine(runner, blocks=blocks, context=CONTEXT, max_batch=load.batch, chunk=512, speculate=way)
    before, began = engine.gauges.num_sampled, time.process_time()
    running = {engine.submit(request): (number, request) for number, request in enumerate(load.requests)}
    sampled: list[list[int]] = [[] for _ in load.requests]
    turns = [0] * len(load.requests)
    while running:
        for answer in engine.step():
            number, request = running.pop(answer.id)
            ids = answer.ids.tolist()
            sampled[number] += ids
            turns[number] += 1
            following = load.after(number, request, ids) if turns[number] < TURNS else None
            if following is not None:
                running[engine.submit(following)] = number, following
    cpu_s = time.process_time() - began
    return cpu_s, sampled, engine.metrics() | {"sampled_tokens": engine.gauges.num_sampled - before}


def row_of(what: str, found: dict[str, dict[str, float]]) -> Row:
    on, off = found["siblings"], found["off"]
    return Row(
        f"{what}: tokens per CPU-second",
        on["tokens_per_cpu_s"],
        {
            "without guesses": off["tokens_per_cpu_s"],
            "ratio": f"{on['tokens_per_cpu_s'] / off['tokens_per_cpu_s']:.2f}",
            "tokens per pass": f"{on['tokens_per_pass']:.2f}",
            "accepted of guessed": f"{on['accepted'] / max(on['guessed'], 1):.2f}",
            "the same tokens": f"{on['same']:.3f}",
        },
    )
