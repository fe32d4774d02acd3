from types import SimpleNamespace

from standins import stand_in

stand_in("evalscope.api.benchmark", MultiChoiceAdapter=object)
stand_in("evalscope.api.dataset", Sample=lambda **fields: SimpleNamespace(**fields))
stand_in("evalscope.api.registry", "evalscope.constants", "evalscope.utils.logger", "evalscope.utils.multi_choices")

import arc_adapter

RECORDS = [
    {
        "id": "Mercury_1",
        "question": "Which is a mammal?",
        "choices": {"text": ["Bat", "Eagle", "Trout", "Frog"], "label": ["A", "B", "C", "D"]},
        "answerKey": "A",
    },
    {
        "id": "NYSEDREGENTS_2",
        "question": "Which force pulls a dropped ball down?",
        "choices": {"text": ["friction", "magnetism", "gravity", "wind"], "label": ["1", "2", "3", "4"]},
        "answerKey": "3",
    },
    {
        "id": "Mercury_3",
        "question": "Which gas do plants take up?",
        "choices": {"text": ["neon", "oxygen", "helium", "carbon dioxide"], "label": ["A", "B", "C", "D"]},
        "answerKey": "D",
    },
    {
        "id": "NYSEDREGENTS_4",
        "question": "Which is the largest planet?",
        "choices": {"text": ["Mars", "Jupiter", "Venus", "Earth"], "label": ["1", "2", "3", "4"]},
        "answerKey": "2",
    },
]


def rows():
    adapter = object.__new__(arc_adapter.ARCAdapter)
    for number, record in enumerate(RECORDS):
        sample = adapter.record_to_sample(record)
        options = "\n".join(f"{letter}) {text}" for letter, text in zip("ABCD", sample.choices, strict=True))
        letter = record["choices"]["label"].index(record["answerKey"])
        prompt = f"Reply with 'ANSWER: [LETTER]'.\n\n{sample.input}\n\n{options}"
        yield {"id": f"arc-{number}", "prompt": prompt, "golden": f"ANSWER: {'ABCD'[letter]}", "target": sample.target}


def grade(answer, row):
    return float(answer.strip().removeprefix("ANSWER:").strip() == row["target"])
