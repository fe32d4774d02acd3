"""Benchmarks are scripts that import each other from their own folder, as they do when they are run."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))  # last: `worlds` is a folder of tests too
