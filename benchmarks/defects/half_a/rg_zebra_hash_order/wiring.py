import os
import subprocess
import sys
from pathlib import Path


def prompts(seed):
    code = "import reasoning_gym as r; d = r.create_dataset('zebra_puzzles', seed=42, size=3); print([e['question'] for e in d])"
    tree = str(Path(__file__).parent / "tree")
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": tree, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


def shows(answer, row):
    return prompts("1") != prompts("2")


def grade(answer, row):
    return 0.0
