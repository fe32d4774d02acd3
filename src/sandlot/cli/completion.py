"""What the shell completes: environments, runs, and tasks below a run. Nothing is loaded: only names of files are read."""

from collections.abc import Iterable, Iterator
from pathlib import Path

_ENVIRONMENTS = Path("environments")
_RUNS = Path("runs")
_MODELS = (
    *("smollm2", "rookie", "scripted:golden", "scripted:noop", "scripted:random", "scripted:mixed:0.5"),
    *("hf:", "openai:", "sandlot:", "vllm:", "sglang:", "replay:"),
)


def complete_environment(incomplete: str) -> list[str]:
    """Environments below `environments/`, installed ones, and paths."""
    return _matching(incomplete, (*_environments(), *_paths(incomplete)))


def complete_run(incomplete: str) -> list[str]:
    """Runs below `runs/`, by name and by path."""
    return _matching(incomplete, _runs())


def complete_what(incomplete: str) -> list[str]:
    """Environments and runs."""
    return _matching(incomplete, (*_environments(), *_runs(), *_paths(incomplete)))


def complete_model(incomplete: str) -> list[str]:
    """Ready models, and how the others begin."""
    replays = [f"replay:{name}" for name in _runs()] if incomplete.startswith("replay:") else []
    return [name for name in (*_MODELS, *replays) if name.startswith(incomplete)]


def _matching(incomplete: str, names: Iterable[str]) -> list[str]:
    """The names that begin with `incomplete`; a folder that is an environment or a run is offered once."""
    found = {name for name in names if name.startswith(incomplete)}
    return sorted(name for name in found if not (name.endswith("/") and name[:-1] in found))


def _environments() -> Iterator[str]:
    from sandlot.env.load import find_environments  # noqa: PLC0415 - help does not need it

    for found in find_environments(_ENVIRONMENTS):
        yield found.name if found.form in {"installed", "ready"} else str(_ENVIRONMENTS / found.name)


def _runs() -> Iterator[str]:
    for manifest in _RUNS.glob("*/manifest.json"):
        yield manifest.parent.name
        yield str(manifest.parent)


def _paths(incomplete: str) -> Iterator[str]:
    """Python files and folders that begin with `incomplete`; folders end in `/`."""
    folder = Path(incomplete) if incomplete.endswith("/") else Path(incomplete).parent
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if path.is_dir() and not path.name.startswith((".", "_")):
            yield f"{path}/"
        elif path.suffix == ".py":
            yield str(path)
