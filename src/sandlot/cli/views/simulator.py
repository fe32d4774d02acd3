"""Measuring a simulated user with a person watching, and the figures as a person reads them."""

import functools
from dataclasses import dataclass
from pathlib import Path

import anyio
from rich.console import Console
from rich.markup import escape

from sandlot.calibrate.judges.gates import GateState, JudgeGate, overall_state
from sandlot.calibrate.users.conversations import conversations_of, labelled_conversations
from sandlot.calibrate.users.gates import SimulatorGates, simulator_gates
from sandlot.calibrate.users.simulator import SimulatedTask, SimulatorQuality, measure_user
from sandlot.cli.options import authors_on_stderr
from sandlot.cli.views.judge import STYLES, GatedResult, people_lines, percent, print_gates
from sandlot.cli.views.summary import plain
from sandlot.core.errors import ConfigError
from sandlot.core.types import Split
from sandlot.env.load import load
from sandlot.env.taskset import task_named, tasks_of
from sandlot.env.user import persona_of
from sandlot.wiring.config import ModelConfig
from sandlot.wiring.models import open_users


@dataclass(frozen=True, slots=True)
class Simulating:
    """What is to be measured, and by what."""

    env: str
    model: ModelConfig
    labels: Path | None
    tasks: tuple[str, ...]
    split: Split | None
    most: int
    repeats: int
    at_once: int
    gates: SimulatorGates


def simulate_watched(simulating: Simulating, *, quiet: bool) -> GatedResult:
    """Hold every conversation, saying on stderr what goes on."""
    if simulating.most < 1:
        raise ConfigError(f"--tasks is {simulating.most}; give 1 or more")
    console = Console(stderr=True, quiet=quiet, highlight=False, soft_wrap=True)
    with authors_on_stderr():
        quality = anyio.run(functools.partial(_measured, simulating, console))
    gates = simulator_gates(quality, simulating.gates)
    return GatedResult(quality, gates, functools.partial(_print_simulator, quality, gates))


async def _measured(simulating: Simulating, console: Console) -> SimulatorQuality:
    env = load(simulating.env)
    everyone = [task_named(env, name) for name in simulating.tasks] or tasks_of(env, simulating.split)
    labels = labelled_conversations(simulating.labels, {task.id for task in everyone}) if simulating.labels else []
    chosen = {task.id for task in everyone[: simulating.most]}
    needed = chosen | {each.task for each in labels}
    subjects = [SimulatedTask(task=task.public(), persona=await persona_of(env, task)) for task in everyone if task.id in needed]
    known = [
        each for subject in subjects if subject.task.id in chosen for each in conversations_of(subject.task, subject.persona)
    ]
    conversations = [*known, *labels]
    console.print(
        f"[bold]{escape(simulating.model.shown)}[/] plays the users of {len(chosen)} tasks in {len(conversations)} conversations"
    )
    with console.status("talking"):
        async with open_users(simulating.model, env) as users:
            return await measure_user(users, subjects, conversations, repeats=simulating.repeats, at_once=simulating.at_once)


def _print_simulator(quality: SimulatorQuality, gates: tuple[JudgeGate, ...]) -> None:
    """To stdout."""
    console = Console(highlight=False, soft_wrap=True)
    standing = overall_state(gates)
    said = {GateState.PASS: "passes", GateState.FAIL: "fails", GateState.UNCALIBRATED: "not known: too little to go by"}[standing]
    console.print(f"user [bold]{escape(quality.user)}[/]: [{STYLES[standing]}]{said}[/]")
    console.print(f"[dim]      held[/]  {quality.calls:,} conversations as the users of {quality.tasks} tasks")
    print_gates(console, gates)
    kappa = "" if quality.fleiss is None else f"; kappa (Fleiss) [bold]{quality.fleiss:.2f}[/]"
    lines = [("itself", f"ends differently {percent(quality.flips)}{kappa}")]
    lines.append(("ends", f"too early {percent(quality.premature)}; not when done {percent(quality.missing)}"))
    lines.append(("facts", f"told when asked {percent(quality.facts)}; unasked {percent(quality.unasked)}"))
    lines += people_lines(quality.agreements)
    lines += [(name, f"[dim]such as[/] {escape(plain(example))}") for name, example in quality.examples.items()]
    for name, value in lines:
        console.print(f"[dim]{name:>10}[/]  {value}")
