"""A curriculum: the tasks that calibration found worth learning from, as a file that training reads.

It is bound to the environment whose tasks it names: training in another, or in the same one changed, refuses it.
"""

from pathlib import Path

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.ports.model import Sampling
from sandlot.env.environment import Environment
from sandlot.env.fingerprint import environment_fingerprint

FORMAT = 1


class CurriculumTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task to learn from."""

    task: str
    rate: float
    """The pass rate it is believed to have."""
    sure: bool
    """True if it was placed in the band; False if that is only where it most likely lies."""


class Curriculum(msgspec.Struct, frozen=True, kw_only=True):
    """`curriculum.json`: what to learn from, for whom, and in what."""

    format: int
    environment: str
    fingerprint: str
    """The environment's: another one's tasks are other tasks."""
    setting: str
    model: str
    """Who they are neither too easy nor too hard for."""
    sampling: Sampling
    band: tuple[float, float]
    created: float
    tasks: tuple[CurriculumTask, ...]


def read_curriculum(path: Path, env: Environment) -> tuple[str, ...]:
    """The task ids of a curriculum file; refused if it was made for another environment, or names none."""
    try:
        curriculum = msgspec.json.decode(path.read_bytes(), type=Curriculum)
    except OSError as error:
        raise ConfigError(f"no curriculum `{path}`: {error.strerror or error}; `sandlot calibrate` writes one") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ConfigError(f"`{path}` is not a curriculum: {error}; `sandlot calibrate` writes one") from error
    if curriculum.format != FORMAT:
        raise ConfigError(f"curriculum `{path}` has `format` {curriculum.format}; this Sandlot reads `format` {FORMAT}")
    if curriculum.environment != env.name:
        raise ConfigError(
            f"curriculum `{path}` was made for environment `{curriculum.environment}`, not for `{env.name}`; "
            "`sandlot calibrate` writes one for it"
        )
    if curriculum.fingerprint != environment_fingerprint(env):
        raise ConfigError(
            f"curriculum `{path}` was made before environment `{env.name}` was changed, which now has another fingerprint: "
            "its tasks may be easier or harder. Calibrate again"
        )
    if not curriculum.tasks:
        raise ConfigError(f"curriculum `{path}` names no tasks: none was found in the band {_shown(curriculum.band)}")
    return tuple(task.task for task in curriculum.tasks)


def curriculum_tasks(wanted: tuple[str, ...] | str | Path, env: Environment) -> tuple[str, ...]:
    """Task ids as a recipe gives them: as they are, or by the file that has them."""
    return wanted if isinstance(wanted, tuple) else read_curriculum(Path(wanted), env)


def _shown(band: tuple[float, float]) -> str:
    return f"{band[0]:g} to {band[1]:g}"
