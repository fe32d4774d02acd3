"""Benchmarks are scripts that import each other from their own folder, as they do when they are run."""

import sys
from pathlib import Path

import worlds  # noqa: F401 - the tests' folder, which has no `__init__.py`: `benchmarks/worlds.py` would go before it

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
