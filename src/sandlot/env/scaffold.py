"""`sandlot new`: a working environment to start from, in one of the three forms, with a test."""

import re
from enum import StrEnum
from pathlib import Path

from sandlot.core.errors import ConfigError

_TEMPLATES = Path(__file__).parent / "templates"
_NAME = re.compile(r"[a-z][a-z0-9-]{0,62}\Z")


class Form(StrEnum):
    """The forms of an environment."""

    FUNCTION = "function"
    FILE = "file"
    FOLDER = "folder"


def scaffold(name: str, form: Form, folder: Path) -> list[Path]:
    """Write `folder/name/` and return its files. `ConfigError` if the folder exists."""
    from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - only scaffolds are templates here

    if not _NAME.match(name):
        raise ConfigError(f"environment name {name!r}: use lower-case letters, digits and `-`, starting with a letter")
    place = folder / name
    if place.exists():
        raise ConfigError(f"`{place}` already exists; choose another name")
    source = _TEMPLATES / form.value
    # No escaping: the output is Python, TOML and JSON, from our own templates and a checked name.
    render = Environment(undefined=StrictUndefined, keep_trailing_newline=True, autoescape=False).from_string  # noqa: S701
    written: list[Path] = []
    templates = [(path, path.relative_to(source).with_suffix("")) for path in sorted(source.rglob("*.jinja"))]
    test_name = Path("tests") / f"test_{name.replace('-', '_')}.py"
    for template, target in [*templates, (_TEMPLATES / "tests.py.jinja", test_name)]:
        path = place / target
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(render(template.read_text()).render(name=name))
        written.append(path)
    return written
