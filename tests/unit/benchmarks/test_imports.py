"""Every benchmark of `make bench` can be imported: names that moved are noticed here and not when a figure is needed."""

import importlib
import sys
from pathlib import Path

from drive.forked import forked

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


def test_every_benchmark_can_be_imported():
    names = [file.stem for file in sorted(BENCHMARKS.glob("*.py")) if "\nNAME = " in file.read_text()]
    assert len(names) > 20

    def import_all() -> str:
        sys.path.insert(0, str(BENCHMARKS))
        for file in BENCHMARKS.glob("*.py"):
            sys.modules.pop(file.stem, None)  # `worlds` is a folder of tests too
        return " ".join(name for name in names if Path(importlib.import_module(name).__file__).parent == BENCHMARKS)

    assert forked(import_all).split() == names
