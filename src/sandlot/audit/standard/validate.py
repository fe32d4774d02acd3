"""`sandlot validate`: an audit of an environment, reported as RFC 008 has it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio

from sandlot.audit.audit import audit
from sandlot.audit.finding import Layer
from sandlot.audit.standard.checks import StandardLevel
from sandlot.audit.standard.facts import declared_answers, measured_answers
from sandlot.audit.standard.report import StandardReport, read_policy, standard_report
from sandlot.core.errors import ConfigError, SandlotError
from sandlot.core.types import Json
from sandlot.env.environment import Environment
from sandlot.env.load import load
from sandlot.observe.events import Sink, ignore_event
from sandlot.run.results import Run
from sandlot.wiring.parts import open_backend


class UnsupportedError(ConfigError):
    """An environment that the standard recognises and does not validate; exit code 2."""


def validate(  # noqa: PLR0913 - the options of `sandlot validate`, all by keyword
    env: str | Path | Environment,
    *,
    level: StandardLevel | str = StandardLevel.SEMANTIC,
    policy: str | Path | None = None,
    models: Sequence[str | Path] = (),
    operator: bool = False,
    judge: str | None = None,
    limit: int = 100,
    seed: int = 0,
    sandbox: str = "native",
    runs: str | Path = "runs",
    sink: Sink = ignore_event,
) -> StandardReport:
    """Audit an environment, and return the report of RFC 008.

    - `level`: the last level to check: `static`, `runtime` or `semantic`.
    - `policy`: a JSON file that says which failed checks count; version 1 of the standard's without one.
    - `models`: runs of models in this environment, weakest first, for the checks that operators fill (`operator`).
    - the others: as for `sandlot.audit`.
    """
    reached = StandardLevel(level)
    rules = read_policy(Path(policy) if policy else None)
    environment = load(env)
    _require_supported(environment)
    found = audit(
        env, layers=[Layer.STATIC] if reached is StandardLevel.STATIC else (), judge=judge, limit=limit, seed=seed,
        sandbox=sandbox, runs=runs, sink=sink,
    )  # fmt: skip
    stored = {Path(run).name: list(Run(Path(run)).rows) for run in models}
    answers = declared_answers(environment, _capabilities(environment, sandbox)) | measured_answers(stored)
    return standard_report(
        found, answers, manifest=_manifest(environment), policy=rules, level=reached, operator=operator or bool(models)
    )


def _require_supported(env: Environment) -> None:
    if env.marked.needs_player:
        raise UnsupportedError(
            f"`{env.name}` is unsupported (simulated-user): a model plays its user; use `sandlot audit --user`"
        )
    if len(env.seats) > 1:
        raise UnsupportedError(f"`{env.name}` is unsupported (multi-agent): it has {len(env.seats)} seats; use `sandlot audit`")


def _capabilities(env: Environment, sandbox: str) -> Mapping[str, str]:
    if env.image is None:
        return {}

    async def probe() -> Mapping[str, str]:
        async with open_backend(sandbox) as backend:
            return await backend.probe()

    try:
        return anyio.run(probe)
    except SandlotError:
        return {}


def _manifest(env: Environment) -> Json:
    """The normalised manifest: what is declared, in the standard's names."""
    limits = env.limits
    return {
        "name": env.name,
        "signature": "sandlot",
        "reward": {"range": [0.0, 1.0]},
        "resources": {"image": env.image, "network": env.network, "episode_timeout_s": limits.time_s, "turns": limits.turns},
        "capabilities": {"oracle": {"form": "script"} if env.marked.solution is not None else None},
        "tools": [tool.spec.name for tool in env.tools],
    }
