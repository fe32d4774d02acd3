"""Text of the row that the prompt lost is found, and whole prompts are not blamed."""

from collections.abc import Callable
from typing import Any

import pytest

from sandlot.audit.finding import Confidence
from sandlot.audit.probes.static.lost_text import PROBE
from sandlot.core.task import Task
from worlds.subjects import ToySubject, case_of

SUBJECTS = ("river", "tower", "engine", "garden", "planet", "market", "bridge", "desert")


def rows() -> list[dict[str, Any]]:
    return [
        {
            "question": f"What is known about the {name}, and since when?",
            "choices": [f"{name} one {at}", f"{name} two {at}", f"{name} three {at}"],
            "passage": f"The {name} was first described in {1800 + at}. It has {at + 3} parts, which nobody counted before.",
            "source": f"book {at}",
        }
        for at, name in enumerate(SUBJECTS)
    ]


def whole(row: dict[str, Any]) -> str:
    options = "\n".join(f"{letter}. {text}" for letter, text in zip("ABC", row["choices"], strict=True))
    return f"Passage: {row['passage']}\nQuestion: {row['question']}\n{options}\nAnswer:"


def tasks(write: Callable[[dict[str, Any]], str], at: int = 3, key: Callable[[int], Any] = str) -> list[Task]:
    """All but one are whole."""
    made = [write(row) if place == at else whole(row) for place, row in enumerate(rows())]
    return [Task(f"t{place}", prompt=prompt, data=rows()[place], key={"golden": key(place)}) for place, prompt in enumerate(made)]


async def codes(given: list[Task]) -> dict[str, Confidence]:
    found = await PROBE.look(await case_of(ToySubject(lambda _e, _t: 0.0, given)))
    return {each.code: each.standing for each in found}


BROKEN: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "the question cut": ("D15.lost", lambda row: whole(row).replace(row["question"], row["question"][-12:])),
    "an option lost": ("D15.lost", lambda row: whole({**row, "choices": [*row["choices"][:2], "none of these"]})),
    "no passage": ("D15.empty", lambda row: whole({**row, "passage": "None"})),
    "a hole": ("D15.placeholder", lambda row: whole({**row, "question": "{question}"})),
    "no prompt": ("D15.prompt", lambda _row: " "),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_what_the_prompt_lost_is_found(name):
    code, write = BROKEN[name]
    assert (await codes(tasks(write)))[code] is Confidence.CONFIRMED


async def test_whole_prompts_are_not_blamed():
    assert await codes(tasks(whole)) == {}
    marked = tasks(lambda row: whole(row).replace(row["question"], f"**{row['question'].upper()}**\n"))
    assert await codes(marked) == {}


async def test_a_field_that_few_prompts_show_may_be_missing():
    assert await codes(tasks(lambda row: f"{whole(row)} (from {row['source']})")) == {}


async def test_one_prompt_with_two_answers_cannot_be_solved():
    double = [*tasks(whole), Task("again", prompt=whole(rows()[0]), data=rows()[0], key={"golden": "another"})]
    assert await codes(double) == {"D15.twins": Confidence.CONFIRMED}
    same = [*tasks(whole), Task("again", prompt=whole(rows()[0]), data=rows()[0], key={"golden": "0"})]
    assert await codes(same) == {}
