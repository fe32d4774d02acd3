"""The prompt is made by the project's `doc_to_text` from each record of RACE; the answer is the text of the right option."""

import json
from pathlib import Path

import preprocess_race as race

DOCS = [json.loads(line) for line in (Path(__file__).parent / "docs.jsonl").read_text().splitlines()]


def rows():
    for number, doc in enumerate(DOCS):
        golden = race.doc_to_choice(doc)[race.doc_to_target(doc)]
        yield {"id": f"race-{number}", "prompt": race.doc_to_text(doc), "golden": golden, **doc}


def grade(answer, row):
    return float(answer.strip() == row["golden"])


def shows(answer, row):
    return "The writer went to the lake" not in race.doc_to_text(DOCS[0])
