"""Prompts with the options that the adapter makes of each record of GPQA."""

import json
import random
from pathlib import Path

from standins import stand_in

stand_in("evalscope.api.benchmark", MultiChoiceAdapter=object)
stand_in(
    "evalscope.api.dataset",
    "evalscope.api.registry",
    "evalscope.constants",
    "evalscope.utils.logger",
    "evalscope.utils.multi_choices",
)

import gpqa_adapter

DOCS = [json.loads(line) for line in (Path(__file__).parent / "docs.jsonl").read_text().splitlines()]


def rows():
    random.seed(0)
    adapter = object.__new__(gpqa_adapter.GPQAAdapter)
    for number, doc in enumerate(DOCS):
        made = adapter._process_input(doc)
        options = "\n".join(f"{letter}) {text}" for letter, text in zip("ABCD", made["choices"], strict=True))
        prompt = f"Answer with 'ANSWER: [LETTER]'.\n\n{doc['Question']}\n\n{options}"
        yield {"id": f"gpqa-{number}", "prompt": prompt, "golden": "ANSWER: " + made["answer"], **doc}


def grade(answer, row):
    return float(answer.strip() == row["golden"])


def shows(answer, row):
    return "[2.2.1]" not in row["prompt"]
