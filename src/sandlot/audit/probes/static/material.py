"""D02: code of the author that runs files of folders which are declared as material, and so are not read as the author's code.

A check could be there in which no probe looks for defects. What the environment has imported when it is described is read
wherever it is; reported is what may run files later.
"""

import ast
from collections.abc import Iterator
from pathlib import PurePosixPath

from sandlot.audit.case import Case, Probe
from sandlot.audit.finding import Finding, Layer
from sandlot.audit.probes.static.code import Module, read_code
from sandlot.audit.probes.static.sighting import Sighting, findings_from
from sandlot.audit.subject import Description

_RUNNING = frozenset(
    {"exec", "eval", "compile", "execfile", "spec_from_file_location", "SourceFileLoader", "run_path", "run_module"}
)
_IMPORTING = frozenset({"import_module", "__import__"})
_PATH = frozenset({"sys.path.insert", "sys.path.append", "sys.path.extend", "site.addsitedir"})
_FIX = "put what grades beside `environment.py`, and let nothing run files of material; or do not declare its folder"


def num_python_files(said: Description) -> dict[str, int]:
    """The declared folders of material, each with its number of Python files that nothing reads as code."""
    folders = [PurePosixPath(folder) for folder in said.declared.material]
    files = [PurePosixPath(path) for path in said.material if path.endswith(".py")]
    return {str(folder): sum(path.is_relative_to(folder) for path in files) for folder in folders}


async def _look(case: Case) -> list[Finding]:
    """No code of the author runs files that are declared as material."""
    said = case.description
    return findings_from(
        Sighting(
            "D02.material",
            f"{what} while `material` hides {', '.join(f'`{folder}`' for folder in num_python_files(said))} from the audit",
            f"{module.path}:{node.lineno}",
            _FIX,
            shown=ast.unparse(node)[:200],
        )
        for module in read_code(case).imported()
        for node, what in _runs(module)
    )


def _runs(module: Module) -> Iterator[tuple[ast.Call, str]]:
    """Calls that run what is no module of the environment: modules that it names are read, whenever it imports them."""
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.Call):
            continue
        name = module.full_name(node.func)
        last = name.rpartition(".")[2]
        builtin = name in {last, f"builtins.{last}"}  # a method of this name is something else, such as `world.exec`
        constant = bool(node.args) and isinstance(node.args[0], ast.Constant)
        if last in _IMPORTING and not constant:
            yield node, f"imports with `{last}`"
        elif name in _PATH:
            yield node, f"changes where modules are found with `{name}`"
        elif last in _RUNNING and (builtin or name.partition(".")[0] in {"runpy", "importlib"}):
            yield node, f"runs files or text with `{last}`"


PROBE = Probe(
    "run-material",
    Layer.STATIC,
    ("D02",),
    _look,
    lambda case: None if case.description.declared.material else "no folder is declared as material",
)
