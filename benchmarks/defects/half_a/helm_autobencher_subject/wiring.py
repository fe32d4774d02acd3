"""The questions of the subject `math`; the data set's loader is a stand-in that gives our records."""

from types import SimpleNamespace

from standins import stand_in

DOCS = [
    {"subject": "math", "question": "What is 7 * 8?", "gold_answer": "56"},
    {"subject": "history", "question": "When did the Thirty Years War end?", "gold_answer": "1648"},
    {"subject": "math", "question": "What is the sum of the angles of a triangle in degrees?", "gold_answer": "180"},
    {"subject": "econ", "question": "What does GDP stand for?", "gold_answer": "gross domestic product"},
    {"subject": "science", "question": "What is the symbol of iron?", "gold_answer": "Fe"},
    {"subject": "math", "question": "What is 3 squared plus 4 squared?", "gold_answer": "25"},
]


def record(**fields):
    return SimpleNamespace(**fields)


stand_in("datasets", load_dataset=lambda *args, **kwargs: DOCS)
stand_in("helm.common.general", "helm.common.hierarchical_logger")
stand_in(
    "helm.benchmark.scenarios.scenario",
    Scenario=object,
    Instance=record,
    Reference=record,
    Input=record,
    Output=record,
    CORRECT_TAG="correct",
    TEST_SPLIT="test",
)

import autobencher_capabilities_scenario as module


def rows():
    scenario = module.AutoBencherCapabilitiesScenario("math")
    for number, instance in enumerate(scenario.get_instances("/tmp")):
        golden = instance.references[0].output.text
        subject = next(each["subject"] for each in DOCS if each["question"] == instance.input.text)
        yield {"id": f"q{number}", "prompt": instance.input.text, "golden": golden, "asked_subject": "math", "subject": subject}


def grade(answer, row):
    return float(answer.strip() == row["golden"])


def shows(answer, row):
    return row["subject"] != "math"
