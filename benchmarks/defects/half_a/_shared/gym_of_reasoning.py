"""Rows and grading by a dataset of reasoning-gym: entries are made by the dataset and scored by its `score_answer`."""

import functools
import json


@functools.cache
def _dataset(name, config):
    import reasoning_gym

    return reasoning_gym.create_dataset(name, **json.loads(config))


def make(name, size=8, seed=42, **config):
    whole = json.dumps({"size": size, "seed": seed, **config}, sort_keys=True)
    data = _dataset(name, whole)
    return [_row(data[index], name, whole, index) for index in range(size)]


def _row(entry, name, config, index):
    row = {
        "id": f"{name}-{index}",
        "prompt": entry["question"],
        "golden": entry["answer"],
        "dataset": name,
        "config": config,
        "index": index,
    }
    try:
        kept = json.loads(json.dumps(entry["metadata"])) == entry["metadata"]
    except TypeError:
        kept = False
    return {**row, "metadata": entry["metadata"]} if kept else row


def grade(answer, row):
    data = _dataset(row["dataset"], row["config"])
    kept = "metadata" in row
    entry = {"question": row["prompt"], "answer": row["golden"], "metadata": row["metadata"]} if kept else data[row["index"]]
    return data.score_answer(answer=answer, entry=entry)
