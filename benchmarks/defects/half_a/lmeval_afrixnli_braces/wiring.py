"""Prompts as the template of the task renders them of records of AfriXNLI."""

from pathlib import Path

TREE = Path(__file__).parent / "tree"
DOCS = [
    {"premise": "A man plays a guitar on the street.", "hypothesis": "A person makes music.", "label": "entailment"},
    {"premise": "Two dogs run through a field.", "hypothesis": "The dogs are asleep.", "label": "contradiction"},
    {"premise": "A woman reads a newspaper.", "hypothesis": "She reads about sport.", "label": "neutral"},
    {"premise": "The shop is closed on Sundays.", "hypothesis": "The shop is open on Sundays.", "label": "contradiction"},
    {"premise": "Children build a tower of blocks.", "hypothesis": "Somebody builds something.", "label": "entailment"},
    {"premise": "A bus stops at the corner.", "hypothesis": "The bus is late.", "label": "neutral"},
]


def rows():
    import jinja2
    import yaml

    template = yaml.safe_load((TREE / "lm_eval/tasks/afrixnli/direct/prompt_1/afrixnli_eng.yaml").read_text())["doc_to_text"]
    for number, doc in enumerate(DOCS):
        yield {
            "id": f"q{number}",
            "prompt": jinja2.Template(template).render(**doc),
            "golden": doc["label"],
            "premise": doc["premise"],
            "hypothesis": doc["hypothesis"],
        }


def grade(answer, row):
    return float(answer.strip() == row["golden"])


def shows(answer, row):
    return "{premise}" in row["prompt"]
