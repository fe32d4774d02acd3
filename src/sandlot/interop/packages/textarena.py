# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""TextArena's games for one player.

    textarena:Minesweeper-v0?seeds=20      one game; each seed is a task
    textarena:all?seeds=2                  every game that one player can play here

Games for several players are left out: TextArena has no opponents of its own that need no model.
"""

from pathlib import Path
from urllib.parse import parse_qsl

from sandlot.core.errors import AuthorError, ConfigError
from sandlot.core.ports.importer import ImportedTask, ImportReport, LeftOut
from sandlot.core.rubric import PythonCheck, Rubric
from sandlot.core.task import Task
from sandlot.interop.folder_writer import EnvironmentDraft, environment_name, task_id, write_environment
from sandlot.interop.packages.requirement import package_licence, package_version, require_package
from sandlot.interop.packages.textarena_world import started_game

_PACKAGE = "textarena"
_TURNS = 100
_WORLD = '''\
"""TextArena's games."""

from sandlot.interop.packages.textarena_world import TextArenaWorld

SOURCES = [TextArenaWorld("{requires}")]
'''
_CHECKS = '''\
"""The game's own reward, from 0 to 1. A game that is not over, or ended with an invalid move (-1), is worth 0."""

from sandlot import Evidence, Task
from sandlot.interop.packages.textarena_world import score_of_game


def reward(evidence: Evidence, task: Task) -> tuple[float, str]:
    return score_of_game(evidence)
'''


class TextArenaImporter:
    """`textarena:GAME` (port `Importer`)."""

    kind = "textarena"

    def digest(self, source: str) -> str:  # noqa: ARG002 - the source is its name
        """Changes with the package."""
        return package_version(_PACKAGE)

    def write(self, source: str, folder: Path, *, limit: int | None) -> ImportReport:
        """Write the environment. A game that does not start, or differs with the same seed, is left out with the reason."""
        requires = f"{_PACKAGE}=={package_version(_PACKAGE)}"
        require_package(requires, "textarena")
        name, seeds = _read_source(source)
        tasks: list[Task] = []
        left_out: list[LeftOut] = []
        for game in _games(name):
            reason = _why_not(game)
            if reason is None:
                tasks += (_task(game, seed) for seed in range(seeds))
            else:
                left_out.append(LeftOut(what=game, why=reason))
            if limit is not None and len(tasks) >= limit:
                break
        tasks = tasks[:limit]
        draft = EnvironmentDraft(
            name=environment_name(f"textarena-{name}"),
            settings={
                "description": f"{name} of {requires}.",
                "on_crash": "lose",  # the game and its reward are in a child process
                "limits": {"turns": _TURNS},
            },
            tasks=tasks,
            rubrics={"default": Rubric(checks=(PythonCheck(id="reward", ref="checks:reward"),))},
            code={"world.py": _WORLD.format(requires=requires), "checks.py": _CHECKS},
        )
        write_environment(folder, draft)
        licence = package_licence(_PACKAGE)
        return ImportReport(
            kind=self.kind,
            source=source,
            package=_PACKAGE,
            version=package_version(_PACKAGE),
            tasks=tuple(ImportedTask(id=task.id, origin=task.id, licence=licence) for task in tasks),
            left_out=tuple(left_out),
            notes=(
                "TextArena gives -1 for a game that ended with an invalid move; here that is worth 0, as is an unfinished game",
                "no golden solutions: the games have none",
            ),
        )


def _read_source(source: str) -> tuple[str, int]:
    name, _, query = source.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    seeds = options.pop("seeds", "20")
    if not name or options or not seeds.isdecimal() or int(seeds) < 1:
        raise ConfigError(f"`{source}`: write `GAME?seeds=20`, or `all?seeds=2`")
    return name, int(seeds)


def _games(name: str) -> list[str]:
    """The games' raw forms, whose messages no wrapper has changed."""
    from textarena.envs.registration import ENV_REGISTRY  # noqa: PLC0415 - imported where it is used

    known = sorted(each for each in ENV_REGISTRY if each.endswith("-raw"))
    if name == "all":
        return known
    if f"{name.removesuffix('-raw')}-raw" not in known:
        raise ConfigError(f"TextArena has no game `{name}`; it has: {', '.join(each.removesuffix('-raw') for each in known)}")
    return [f"{name.removesuffix('-raw')}-raw"]


def _why_not(game: str) -> str | None:
    """Why a game cannot be taken; None if it can."""
    seen: list[str] = []
    try:
        for _ in range(2):
            with started_game(game, 1) as begun:
                seen.append(begun.seen)
    except AuthorError as error:
        return str(error)
    return None if seen[0] and seen[0] == seen[1] else "it is another game after a second start with the same seed"


def _task(game: str, seed: int) -> Task:
    name = game.removesuffix("-raw")
    prompt = (
        f"Play the game `{name}`. `look` shows what the game says, its rules first; `act` makes a move. Win it, then say done."
    )
    return Task(task_id(f"{name}-{seed}"), prompt=prompt, data={"game": game, "seed": seed}, tags=(name.partition("-v")[0],))
