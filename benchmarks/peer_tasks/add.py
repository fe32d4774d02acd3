"""The trivial one-turn task for Inspect: what `environments/arithmetic` is for us.

`-T mock=true` answers in process with Inspect's own mock model, told its token counts so that it does not fetch a tokenizer.
"""

from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate


def answer(messages: list[Any], *_rest: Any) -> ModelOutput:
    number = int(messages[-1].text.removesuffix("?").rpartition("+")[2])
    output = ModelOutput.from_content(model="mockllm", content=str(2 * number))
    output.usage = ModelUsage(input_tokens=20, output_tokens=4, total_tokens=24)
    return output


@task
def add(n: int = 500, *, mock: bool = False) -> Task:
    samples = [Sample(input=f"What is {i}+{i}?", target=str(2 * i)) for i in range(n)]
    model = get_model("mockllm/model", custom_outputs=answer) if mock else None
    return Task(dataset=samples, solver=generate(), scorer=match(), model=model)
