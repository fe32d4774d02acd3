"""A task over a data set that Inspect carries, as its documentation writes it."""

from inspect_ai import Task, task
from inspect_ai.dataset import FieldSpec, example_dataset
from inspect_ai.scorer import match
from inspect_ai.solver import generate, system_message


@task
def popularity():
    return Task(
        dataset=example_dataset("popularity", FieldSpec(input="question", target="answer_matching_behavior")),
        solver=[system_message("Answer with Yes or No."), generate()],
        scorer=match(),
    )
