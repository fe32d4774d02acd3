"""Every benchmark of `make bench` can be imported: names that moved are noticed here and not when a figure is needed."""

import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[3] / "benchmarks"


@pytest.mark.timeout(120)  # torch and the trainer are imported
def test_every_benchmark_can_be_imported():
    names = [file.stem for file in sorted(BENCHMARKS.glob("*.py")) if "\nNAME = " in file.read_text()]
    assert len(names) > 20
    subprocess.run([sys.executable, "-c", f"import {', '.join(names)}"], cwd=BENCHMARKS, check=True)
