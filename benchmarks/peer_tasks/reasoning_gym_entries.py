"""Writes tasks of every reasoning-gym dataset for an audit: `python reasoning_gym_entries.py FOLDER SIZE SEED`.

Runs with the Python that has reasoning-gym. Entries hold more than JSON can say, so they are kept whole in a pickle beside the
task file; the grader (`marks.py`, written here too) finds an entry by dataset and place and asks reasoning-gym for the score.
"""

import contextlib
import json
import pickle
import sys
from pathlib import Path

MARKS = '''"""Scores an answer as reasoning-gym does."""

import pickle
from pathlib import Path

from reasoning_gym.factory import get_score_answer_fn

ENTRIES = pickle.loads((Path(__file__).parent / "entries.pickle").read_bytes())
SCORES = {name: get_score_answer_fn(name) for name in ENTRIES}


def grade(answer, dataset, index):
    return SCORES[dataset](answer, ENTRIES[dataset][index])
'''


def main(folder: Path, size: int, seed: int) -> None:
    from reasoning_gym.factory import DATASETS, create_dataset

    entries = {}
    for name in sorted(DATASETS):
        with contextlib.suppress(AssertionError):  # `composite` is made of others and is none by itself
            made = create_dataset(name, size=size, seed=seed)
            entries[name] = [made[index] for index in range(size)]
            print(name, flush=True)
    lines = [
        {"id": f"{name}.{index}", "question": entry["question"], "answer": entry["answer"], "dataset": name, "index": index}
        for name, each in entries.items()
        for index, entry in enumerate(each)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "marks.py").write_text(MARKS)
    (folder / "entries.pickle").write_bytes(pickle.dumps(entries))
    (folder / "tasks.jsonl").write_text("\n".join(json.dumps(line) for line in lines))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
