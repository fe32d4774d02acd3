"""Prompts as the scenario makes them of records of ArabicMMLU; the data set's loader is a stand-in that gives ours."""

import json
from pathlib import Path
from types import SimpleNamespace

from standins import stand_in

DOCS = [json.loads(line) for line in (Path(__file__).parent / "docs.jsonl").read_text().splitlines()]


class Dataset(list):
    pass


def record(**fields):
    return SimpleNamespace(**fields)


stand_in("datasets", Dataset=Dataset, load_dataset=lambda *args, **kwargs: {"test": Dataset(DOCS)})
stand_in("helm.common.general", "helm.benchmark.presentation.taxonomy_info")
stand_in(
    "helm.benchmark.scenarios.scenario",
    Scenario=object,
    Instance=record,
    Reference=record,
    Input=record,
    Output=record,
    CORRECT_TAG="correct",
    TEST_SPLIT="test",
    TRAIN_SPLIT="train",
    ScenarioMetadata=record,
)

import arabic_mmlu_scenario


def rows():
    scenario = object.__new__(arabic_mmlu_scenario.ArabicMMLUScenario)
    scenario.subset = "x"
    for number, instance in enumerate(scenario.get_instances("/tmp")):
        options = [(letter, each) for letter, each in zip("ABCDE", instance.references, strict=False)]
        golden = next(letter for letter, each in options if each.tags)
        prompt = instance.input.text + "\n" + "\n".join(f"{letter}. {each.output.text}" for letter, each in options) + "\nAnswer:"
        yield {"id": f"q{number}", "prompt": prompt, "golden": golden, **DOCS[number]}


def grade(answer, row):
    return float(answer.strip() == row["golden"])


def shows(answer, row):
    return "camels" not in row["prompt"]
