"""A diagnosis: a handful of telling rollouts of an environment, and what looks mis-specified in them.

It takes less time than an audit and proves less: it plays a few tasks with known players (the golden solution, agents that do
nothing, random calls, and a model if there is one), and applies rules to what came out. The rollouts are an ordinary run.
"""

import re
from pathlib import Path
from typing import Any

import msgspec

from sandlot.audit.subjects.environment.describe import describe
from sandlot.audit.symptom import PlayedRollout, Symptom, read_played
from sandlot.audit.symptom_rules import Played, find_symptoms
from sandlot.core.concurrency.blocking import blocking
from sandlot.core.errors import ConfigError
from sandlot.env.load import load
from sandlot.model.policy.scripted import panel_of
from sandlot.observe.events import Sink, ignore_event
from sandlot.run.recording import asciicast_of, has_terminal
from sandlot.run.results import Run
from sandlot.run.run import run_async

FILE, RECORDINGS = "diagnosis.json", "recordings"
"""In the run directory: the result, and the folder of terminal recordings."""
_MODEL_GROUP = 4
"""Rollouts of each task by the model."""
_MOST_RECORDINGS = 20
_AT_ONCE = 16
_UNSAFE = re.compile(r"[^A-Za-z0-9_-]+")


class Diagnosis(msgspec.Struct, frozen=True, kw_only=True):
    """What a few rollouts say about an environment."""

    environment: str
    model: str | None
    runs: tuple[str, ...]
    """The run of the scripted players, then that of the model."""
    players: tuple[str, ...]
    """Who played the rollouts of a task in the first run, by number."""
    tasks: tuple[str, ...]
    """Tasks that were played."""
    num_tasks: int
    """Tasks of the environment."""
    rollouts: int
    complete: bool
    """False if a run was stopped."""
    scores: dict[str, float | None]
    """Mean score of each player."""
    symptoms: tuple[Symptom, ...]
    """What is wrong first."""
    recordings: tuple[str, ...] = ()
    """Terminal recordings of rollouts that show something."""

    @property
    def exit_code(self) -> int:
        """0 nothing wrong, 1 something is wrong, 3 nothing wrong so far, but a run was stopped."""
        if any(symptom.wrong for symptom in self.symptoms):
            return 1
        return 0 if self.complete else 3


async def diagnose_async(  # noqa: PLR0913 - the everyday fields of a diagnosis, all but two by keyword
    env: str | Path,
    model: str | None = None,
    *,
    tasks: int = 8,
    judge: str | None = None,
    user: str | None = None,
    sandbox: str = "native",
    seed: int = 0,
    runs: str | Path = "runs",
    sink: Sink = ignore_event,
) -> Diagnosis:
    """Play a few tasks with known players, and return the `Diagnosis`: what looks mis-specified, each with rollouts that show it.

    - `env`: a path or the name of an environment.
    - `model`: a model that plays too, four rollouts of each task. Default: none.
    - `tasks`: how many tasks to play, spread over all of them.
    - `judge`, `user`, `sandbox`: as for `run`.
    - `seed`: the seed of sampling.
    - `runs`: the folder for run directories.
    - `sink`: receives the events of the runs.

    ```python
    from sandlot.audit.diagnose import diagnose

    found = diagnose("arithmetic", tasks=4)
    print(found.scores, [symptom.said for symptom in found.symptoms])
    ```
    """
    if tasks < 1:
        raise ConfigError(f"{tasks} tasks to play; give at least 1")
    loaded = load(env)
    description = describe(loaded)
    every = [task.id for task in description.tasks]
    chosen = tuple(every[place * len(every) // min(tasks, len(every))] for place in range(min(tasks, len(every))))
    players = panel_of(has_golden=description.has_golden)
    played: list[PlayedRollout] = []
    taken: list[Run] = []
    wanted = [("scripted:panel", len(players)), *([(model, _MODEL_GROUP)] if model else [])]
    for spec, group in wanted:
        given: dict[str, Any] = {"judge": judge, "user": user, "sandbox": sandbox, "seed": seed, "runs": runs, "sink": sink}
        run = await run_async(loaded, spec, tasks=chosen, group=group, at_once=_AT_ONCE, **given)
        played += _read(run, () if taken else players)
        taken.append(run)
    symptoms = find_symptoms(Played(str(env), model, description, played)) if played else []
    found = Diagnosis(
        environment=loaded.name,
        model=model,
        runs=tuple(str(run.path) for run in taken),
        players=players,
        tasks=chosen,
        num_tasks=len(every),
        rollouts=len(played),
        complete=all(run.finished for run in taken),
        scores=_scores(played),
        symptoms=tuple(symptoms),
        recordings=tuple(_record(taken, symptoms, played)),
    )
    (taken[0].path / FILE).write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    return found


def _read(run: Run, players: tuple[str, ...]) -> list[PlayedRollout]:
    """The rollouts of a run by these players in turn, or by the model if there are none."""
    traces = sorted(run, key=lambda trace: (trace.task, trace.rollout))
    names = [players[trace.rollout % len(players)].partition(":")[0] if players else "model" for trace in traces]
    return [read_played(str(run.path), name, trace) for name, trace in zip(names, traces, strict=True)]


diagnose = blocking("diagnose", diagnose_async)


def choose_telling(found: Diagnosis, run: str, most: int = 20) -> list[tuple[str, int]]:
    """The rollouts of a run to show first: those of the symptoms, then one task by every player."""
    shown = [key for symptom in found.symptoms if symptom.run == run for key in symptom.rollouts]
    group = len(found.players) if run == found.runs[0] else _MODEL_GROUP
    there = {(row.task, row.rollout) for row in Run(run).rows}
    shown += [(found.tasks[0], number) for number in range(group)]
    return [key for key in dict.fromkeys(shown) if key in there][:most]


def _scores(played: list[PlayedRollout]) -> dict[str, float | None]:
    scores: dict[str, list[float]] = {each.player: [] for each in played}
    for each in played:
        if each.score is not None:
            scores[each.player].append(each.score)
    return {player: sum(values) / len(values) if values else None for player, values in scores.items()}


def _record(taken: list[Run], symptoms: list[Symptom], played: list[PlayedRollout]) -> list[str]:
    """Write the terminal recordings of the rollouts that show something, and of the first ones."""
    wanted = [(symptom.run, *key) for symptom in symptoms for key in symptom.rollouts]
    wanted += [(each.run, *each.key) for each in played if each.player in {"golden", "model"}]
    by_path = {str(run.path): run for run in taken}
    written: list[str] = []
    for place, task, rollout in dict.fromkeys(wanted):
        trace = by_path[place].trace(task, rollout)
        if len(written) < _MOST_RECORDINGS and has_terminal(trace):
            folder = by_path[place].path / RECORDINGS
            folder.mkdir(exist_ok=True)
            file = folder / f"{len(written):02d}-{_UNSAFE.sub('-', task)[:60]}-{rollout}.cast"
            file.write_bytes(asciicast_of(trace, by_path[place].reader.blobs.read))
            written.append(str(file))
    return written
