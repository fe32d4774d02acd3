"""Prompts as the template of the task renders them of records of LongBench."""

from pathlib import Path

TREE = Path(__file__).parent / "tree"
DOCS = [
    {
        "context": "Passage 1: Ada Lane was born in Hull.\nPassage 2: Hull lies on the Humber.",
        "input": "On which river lies the birthplace of Ada Lane?",
        "answers": ["Humber"],
    },
    {
        "context": "Passage 1: The film Red Sky was made by Jon Berg.\nPassage 2: Jon Berg is Danish.",
        "input": "Of which nationality is the maker of Red Sky?",
        "answers": ["Danish"],
    },
    {
        "context": "Passage 1: Kato won the race in 1998.\nPassage 2: The race of 1998 was held in Oslo.",
        "input": "Where did Kato win?",
        "answers": ["Oslo"],
    },
    {
        "context": "Passage 1: Mira sings in the band Slate.\nPassage 2: Slate was founded in 2003.",
        "input": "When was Mira's band founded?",
        "answers": ["2003"],
    },
]


def rows():
    import jinja2
    import yaml

    text = (TREE / "lm_eval/tasks/longbench/hotpotqa.yaml").read_text().replace("!function", "")
    template = yaml.safe_load(text)["doc_to_text"]
    for number, doc in enumerate(DOCS):
        yield {
            "id": f"q{number}",
            "prompt": jinja2.Template(template).render(**doc),
            "golden": doc["answers"][0],
            "context": doc["context"],
            "input": doc["input"],
        }


def grade(answer, row):
    return float(answer.strip() == row["golden"])


def shows(answer, row):
    return "\\n" in row["prompt"]
