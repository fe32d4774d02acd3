"""The engine's core runs where only torch and numpy are: on a borrowed GPU machine."""

import ast
import sys
from pathlib import Path

import pytest

import sandlot.model.engine
from sandlot.core.syntax import parse_python

FOLDER = Path(sandlot.model.engine.__file__).parent
CORE = (
    "adapters", "batch", "blocks", "cache", "engine", "eviction", "gauges", "plain", "prefix_log", "request", "sampler",
    "scheduler", "seats", "siblings", "speculation", "tree", "trunks",
)  # fmt: skip


@pytest.mark.parametrize("name", CORE)
def test_the_core_needs_only_torch_and_numpy(name):
    for node in ast.walk(parse_python((FOLDER / f"{name}.py").read_text())):
        modules = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        modules += [node.module] if isinstance(node, ast.ImportFrom) else []
        for module in modules:
            top = module.split(".")[0]
            assert top in {"torch", "numpy"} | sys.stdlib_module_names or module.startswith(
                ("sandlot.model.nn.", "sandlot.model.engine.")
            )
            assert module.removeprefix("sandlot.model.engine.") in CORE or not module.startswith("sandlot.model.engine.")
