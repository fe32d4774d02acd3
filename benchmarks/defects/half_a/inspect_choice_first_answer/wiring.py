from inspect_ai.solver._multiple_choice import parse_answers
from inspect_scorers import state_of


def grade(answer, row):
    chosen = parse_answers(state_of(answer, row["prompt"], row["choices"]), multiple_correct=False)
    letters = set(chosen.group(1).strip()) if hasattr(chosen, "group") else set(chosen or ())
    return float(letters == {row["golden"][-1]})
