"""What a worker is told before its first rollout, and the environment's files for one on a machine that does not have them."""

import math
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.core.task import Task
from sandlot.core.types import digest
from sandlot.env.environment import Environment
from sandlot.env.fingerprint import files_of, fingerprint_parts
from sandlot.env.taskset import tasks_of
from sandlot.run.config import seats_config
from sandlot.run.executors.executor import ExecutorPlan
from sandlot.run.executors.messages import SentFiles, SetUp
from sandlot.wiring.config import ModelConfig

MOST_WORKERS = 256
_POOL = 16
"""Sandboxes kept ready, in all workers together."""
_MOST_NAMED = 3
"""Files that a refusal names."""
_MOST_SENT_BYTES = 100_000_000
"""An environment with larger files must be on every machine already."""


def task_digest(task: Task) -> str:
    """Tells whether two machines made the same task. An author's own objects in it count by type."""
    return digest(msgspec.json.encode(task, enc_hook=lambda value: type(value).__qualname__, order="deterministic"))


def tasks_digest(env: Environment) -> str:
    """Tells whether two machines made the same tasks."""
    return digest("".join(map(task_digest, tasks_of(env))).encode())


def setup_of(plan: ExecutorPlan, count: float = 1) -> SetUp:
    """What each of `count` equal workers is told; `ConfigError` for a run that needs one process."""
    env, config = plan.env, plan.config
    if env.source is None:
        raise ConfigError(f'environment `{env.name}` is not in a file, so workers cannot load it; run it with `on="local"`')
    models = [model for model in (config.model, config.judge, config.user, *config.seat_models.values()) if model is not None]
    capped = next((model for model in models if model.max_usd is not None or model.max_total_tokens is not None), None)
    if capped is not None:
        raise ConfigError(
            f"model `{capped.shown}` has a cap, which is counted in one process only; leave out the cap, or use `--on local`"
        )
    pool, parts = min(config.at_once, _POOL), fingerprint_parts(env)
    whole = SetUp(config=config, fingerprint=plan.fingerprint, parts=parts, cache=str(plan.cache), pool=pool)
    return divided_setup(whole, count)


def divided_setup(whole: SetUp, count: float) -> SetUp:
    """What each of `count` equal workers is told, of what is for all of them together."""
    config = whole.config
    divided = msgspec.structs.replace(
        config,
        model=_shared(config.model, count),
        judge=_shared(config.judge, count) if config.judge else None,
        user=_shared(config.user, count) if config.user else None,
        seats=seats_config({name: _shared(model, count) for name, model in config.seat_models.items()}),
    )
    return msgspec.structs.replace(whole, config=divided, pool=math.ceil(whole.pool / count))


def _shared(model: ModelConfig, count: float) -> ModelConfig:
    return msgspec.structs.replace(model, connections=math.ceil(model.connections / count))


def describe_difference(wanted: Mapping[str, str], found: Mapping[str, str]) -> str:
    """Which parts of an environment are not those of the run, as a clause; empty if there are none."""
    clauses = (
        ([name for name in wanted if name in found and found[name] != wanted[name]], "differs", "differ"),
        ([name for name in wanted if name not in found], "is missing here", "are missing here"),
        ([name for name in found if name not in wanted], "is not in the run's", "are not in the run's"),
    )
    return "; ".join(f"{_listed(names)} {one if len(names) == 1 else many}" for names, one, many in clauses if names)


def _listed(names: list[str]) -> str:
    others = f" and {len(names) - _MOST_NAMED} others" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + others


def pack_files(env: Environment) -> SentFiles | None:
    """The files of an environment, for other machines; None if they are too large, or not all in one folder."""
    if env.source is None or env.package is not None:
        return None  # an installed package is more than its files: it must be installed there too
    files = dict(files_of(env))
    if any(".." in PurePosixPath(name).parts for name in files):
        return None
    if sum(path.stat().st_size for path in files.values()) > _MOST_SENT_BYTES:
        return None
    entry = next((name for name, path in files.items() if path == env.source), "")
    return SentFiles(source=str(env.source), entry=entry, files={name: path.read_bytes() for name, path in files.items()})


def unpack_files(sent: SentFiles, folder: Path) -> Path:
    """Write the files of an environment into an empty folder; what to load."""
    for name, data in sent.files.items():
        path = folder / name
        if not path.resolve().is_relative_to(folder.resolve()):
            raise ConfigError(f"`{name}` is not below the environment's folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder / sent.entry
