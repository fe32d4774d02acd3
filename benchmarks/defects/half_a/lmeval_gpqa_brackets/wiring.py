"""Prompts as the task's template writes them from what `process_docs` makes of each record of GPQA."""

import json
import random
from pathlib import Path

import utils

DOCS = [json.loads(line) for line in (Path(__file__).parent / "docs.jsonl").read_text().splitlines()]


class Records(list):
    def map(self, function):
        return [{**each, **function(each)} for each in self]


def rows():
    random.seed(0)
    for number, doc in enumerate(utils.process_docs(Records(DOCS))):
        options = "\n".join(f"({letter}) {doc[f'choice{place}']}" for place, letter in enumerate("ABCD", 1))
        prompt = f"What is the correct answer to this question:{doc['Question']}\nChoices:\n{options}\nLet's think step by step: "
        yield {"id": f"gpqa-{number}", "prompt": prompt, "golden": doc["answer"], **{name: doc[name] for name in DOCS[0]}}


def grade(answer, row):
    return float(answer.strip() == row["golden"])


def shows(answer, row):
    return "[Fe]" not in row["prompt"]
