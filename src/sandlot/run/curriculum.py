"""A curriculum: the tasks that calibration found worth learning from, as a file that training reads.

It belongs to one environment. Training in another environment, or after a change of this one, refuses it.
"""

from pathlib import Path

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.ports.model import Sampling
from sandlot.env.environment import Environment
from sandlot.env.fingerprint import environment_fingerprint

FORMAT = 1


class CurriculumTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task of a curriculum."""

    task: str
    rate: float
    """Estimated pass rate."""
    sure: bool
    """True if calibration placed it in the band with confidence; False if the band is only the most likely place."""


class Curriculum(msgspec.Struct, frozen=True, kw_only=True):
    """`curriculum.json`: the tasks, and the environment and model that they were chosen for."""

    format: int
    environment: str
    fingerprint: str
    """Fingerprint of the environment."""
    setting: str
    model: str
    """The model for which the tasks are neither too easy nor too hard."""
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
        low, high = curriculum.band
        raise ConfigError(f"curriculum `{path}` names no tasks: none was found in the band {low:g} to {high:g}")
    return tuple(task.task for task in curriculum.tasks)


def curriculum_tasks(wanted: tuple[str, ...] | str | Path, env: Environment) -> tuple[str, ...]:
    """Task ids as a recipe gives them: a tuple of ids, or the path of a curriculum file."""
    return wanted if isinstance(wanted, tuple) else read_curriculum(Path(wanted), env)
