"""How tasks of tau-bench are named: `FOLDER?domain=airline`, the folder of its repository."""

import sys
from pathlib import Path
from urllib.parse import parse_qsl

import msgspec

from sandlot.core.errors import ConfigError
from sandlot.interop.package_process import python_at

_SPLITS = {"retail": ("test", "train", "dev"), "airline": ("test",)}
_OPTIONS = ("domain", "split", "python")


class TauBenchSource(msgspec.Struct, frozen=True, kw_only=True):
    """A domain of tau-bench, and the Python that runs it."""

    folder: str
    """The folder that holds `tau_bench`."""
    domain: str
    split: str
    python: str
    """The interpreter that runs it; it has `pydantic`."""


def read_source(source: str) -> TauBenchSource:
    """Read a source's name; `ConfigError` names what is wrong."""
    name, _, query = source.partition("?")
    options = dict(parse_qsl(query, keep_blank_values=True))
    if unknown := set(options) - set(_OPTIONS):
        raise ConfigError(f"`{source}`: unknown `{min(unknown)}`; there are: {', '.join(_OPTIONS)}")
    folder = Path(name or ".").resolve()
    if not (folder / "tau_bench" / "envs" / "base.py").is_file():
        raise ConfigError(f"`{folder}` has no `tau_bench/envs/base.py`; name the folder of tau-bench's repository")
    domain, split = options.get("domain", "retail"), options.get("split", "test")
    if domain not in _SPLITS:
        raise ConfigError(f"`{source}`: the domain `{domain}` is unknown; use {' or '.join(_SPLITS)}")
    if split not in _SPLITS[domain]:
        raise ConfigError(f"`{source}`: the domain {domain} has no tasks `{split}`; use {' or '.join(_SPLITS[domain])}")
    return TauBenchSource(folder=str(folder), domain=domain, split=split, python=python_at(options.get("python", sys.executable)))
