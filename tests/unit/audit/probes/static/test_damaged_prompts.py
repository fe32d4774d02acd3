"""Prompts that lost part of their row's text are found from one prompt beside its row, and whole ones are not blamed."""

from typing import Any

import pytest

from sandlot.audit.finding import Confidence
from sandlot.audit.probes.static.damaged_prompts import PROBE
from sandlot.core.task import Task
from worlds.subjects import ToySubject, case_of

NAMES = ("iron", "cobalt", "nickel", "chrome", "copper")


async def codes(given: list[Task]) -> dict[str, Confidence]:
    found = await PROBE.look(await case_of(ToySubject(lambda _e, _t: 0.0, given)))
    return {each.code: each.standing for each in found}


def choice(at: int, texts: list[str], golden: str = "A", **data: Any) -> Task:
    listed = "\n".join(f"{letter}) {text}" for letter, text in zip("ABCD", texts, strict=False))
    prompt = f"Which salt is number {at}?\n\n{listed}\nANSWER: LETTER"
    return Task(f"t{at}", prompt=prompt, data={"right": f"salt[{NAMES[at]}] oxide", **data}, key={"golden": golden})


async def test_a_bracket_cut_out_of_the_rows_text_is_found():
    cut = [choice(at, ["salt oxide", f"salt {at}"]) for at in range(5)]
    assert await codes(cut) == {"D15.cut": Confidence.CONFIRMED}
    assert await codes([choice(at, [f"salt[{NAMES[at]}] oxide", f"salt {at}"]) for at in range(5)]) == {}


async def test_notes_in_brackets_may_be_left_out():
    noted = [choice(at, ["salt oxide", f"salt {at}"], right=f"salt oxide ({at + 2} points)") for at in range(5)]
    assert await codes(noted) == {}


async def test_the_end_of_a_passage_cut_off_is_found():
    passage = "The {0} mine lies beyond the old river and was closed when the {0} price fell to nothing after wartime in Norway."
    whole = {at: passage.format(name) for at, name in enumerate(NAMES)}
    cut = [Task(f"t{at}", prompt=f"{text[:60].rsplit(' ', 1)[0]}\nWhy?", data={"passage": text}) for at, text in whole.items()]
    assert await codes(cut) == {"D15.cut": Confidence.CONFIRMED}
    assert await codes([Task(f"t{at}", prompt=f"{text}\nWhy?", data={"passage": text}) for at, text in whole.items()]) == {}


async def test_the_right_option_twice_is_found_and_a_wrong_one_twice_is_not():
    twice = [choice(at, ["gold", "tin", "gold"], golden="ANSWER: C", right="") for at in range(3)]
    assert await codes(twice) == {"D15.twin_options": Confidence.CONFIRMED}
    assert await codes([choice(at, ["gold", "tin", "tin"], right="") for at in range(3)]) == {}


BOTH = "Two men carried the piano up the stairs while the rain came down on them."


@pytest.mark.parametrize(("prompt", "rest", "standing"), [
    ("Who carried it?", None, Confidence.CONFIRMED),
    ("Who carried it, according to the passage?", BOTH, Confidence.CONFIRMED),
    ("Who carried it?", BOTH, Confidence.LEAD),
])  # fmt: skip
async def test_a_passage_that_no_prompt_shows_is_found_where_questions_need_it(prompt, rest, standing):
    given = [Task(f"t{at}", prompt=prompt, data={"passage": BOTH if at < 3 else rest}) for at in range(6)]
    assert await codes(given) == {"D15.background": standing}
    assert await codes([Task(f"t{at}", prompt=f"{BOTH}\n{prompt}", data={"passage": BOTH}) for at in range(6)]) == {}


async def test_backslash_n_for_line_breaks_is_found_and_latex_is_not():
    shown = [Task(f"t{at}", prompt=f"Read this.\\n\\nText {at}.\\nThe end.") for at in range(3)]
    assert await codes(shown) == {"D15.escaped": Confidence.CONFIRMED}
    latex = [Task(f"t{at}", prompt=f"Is $a \\neq {at}$ and $x\\nu y$? Write `a\\nB`, then 'c\\nD'.") for at in range(3)]
    assert await codes(latex) == {}


async def test_a_question_for_a_number_whose_key_has_none_is_found():
    asked = "Directions are e.g. left left up. Now, find the length of the shortest path:\nO X"
    assert await codes([Task(f"t{at}", prompt=asked, key={"golden": "left up"}) for at in range(4)]) == {
        "D15.kind": Confidence.CONFIRMED
    }
    assert await codes([Task(f"t{at}", prompt=asked, key={"golden": f"it is {at}"}) for at in range(4)]) == {}
    assert await codes([Task(f"t{at}", prompt="How many? Say many or few.", key={"golden": "many"}) for at in range(4)]) == {}
