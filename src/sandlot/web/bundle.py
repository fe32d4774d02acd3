"""The scripts and styles of pages as one script and one style, for a file that has no server.

Our modules are few and plain: an import names what it takes from `./NAME.js`, an export stands before a function or a constant.
Each module becomes a function that runs once, when it is first used.
"""

import base64
import hashlib
import re
from collections.abc import Iterable
from pathlib import Path

from sandlot.core.errors import ConfigError

_STATIC = Path(__file__).parent / "static"
_IMPORT = re.compile(r'^import\s+(?:\{([^}]*)\}\s+from\s+)?"\./([\w-]+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export\s+((?:async\s+)?(?:function\*?|class|const|let)\s+(\w+))", re.MULTILINE)
_RENAMED = re.compile(r"(\w+)\s+as\s+(\w+)")


def bundle_scripts(names: Iterable[str]) -> str:
    """The modules of these names and all that they import, with `use(name)` that runs one."""
    modules: dict[str, str] = {}
    wanted = list(dict.fromkeys(names))
    while wanted:
        name = wanted.pop()
        if name not in modules:
            text = (_STATIC / f"{name}.js").read_text()
            wanted += [found.group(2) for found in _IMPORT.finditer(text)]
            modules[name] = _as_function(name, text)
    bodies = "".join(f"modules[{name!r}] = () => {{\n{modules[name]}}};\n" for name in sorted(modules))
    use = "const used = {};\nfunction use(name) { return (used[name] ??= modules[name]() ?? {}); }\n"
    return f'"use strict";\nconst modules = {{}};\n{use}{bodies}'


def _as_function(name: str, text: str) -> str:
    """The body of a module as the body of a function."""
    exported = [found.group(2) for found in _EXPORT.finditer(text)]
    body = _EXPORT.sub(r"\1", _IMPORT.sub(_taken, text))
    left = re.search(r"^\s*(import|export)\b.*$", body, re.MULTILINE)
    if left or "</script" in body.lower() or "<!--" in body:
        raise ConfigError(f"static/{name}.js cannot be put into one file: {left.group() if left else 'it holds a tag'}")
    return body + (f"return {{ {', '.join(exported)} }};\n" if exported else "")


def _taken(found: re.Match[str]) -> str:
    names, module = found.groups()
    taken = None if names is None else _RENAMED.sub(r"\1: \2", names)
    return f"use({module!r});" if taken is None else f"const {{{taken}}} = use({module!r});"


def bundle_styles(names: Iterable[str]) -> str:
    """The style sheets of these names, one after the other."""
    return "".join((_STATIC / f"{name}.css").read_text() for name in dict.fromkeys(names))


def content_hash(text: str) -> str:
    """How a content-security policy names an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
