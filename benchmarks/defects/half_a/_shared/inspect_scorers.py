"""One scorer of Inspect on one answer, as its own evaluation calls it."""

import asyncio

from inspect_ai.model import ModelName, ModelOutput
from inspect_ai.scorer import Target
from inspect_ai.solver import TaskState


def state_of(answer, prompt="", choices=None):
    output = ModelOutput.from_content("mockllm/model", answer)
    return TaskState(
        model=ModelName("mockllm/model"), sample_id=1, epoch=1, input=prompt, messages=[], output=output, choices=choices
    )


def scored(scorer, answer, target, prompt=""):
    score = asyncio.run(scorer(state_of(answer, prompt), Target(target)))
    return 1.0 if score.value == "C" else 0.0 if score.value in ("I", "N") else float(score.value)
