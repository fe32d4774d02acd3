"""Which tasks the ladder of skills plays, and what its agents leave out."""

import random
from typing import Any

import ladder
import pytest

from sandlot import Task


class Heard:
    """An agent that keeps what it is asked to do."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.said = ""

    async def call(self, tool: str, /, **arguments: Any) -> str:
        self.texts.append(arguments["text"])
        return ""

    async def say(self, text: str) -> None:
        self.said = text


def test_one_task_of_each_family_is_played_by_tag_or_by_name():
    tasks = [Task(f"coq-{name}", tags=(family,)) for name, family in (("a", "one"), ("b", "two"), ("c", "two"))]
    assert ladder.one_of_each(tasks) == ["coq-a", "coq-c"]
    assert ladder.one_of_each([Task("buy-1"), Task("buy-2"), Task("pay-1"), Task("pay-2")]) == ["buy-1", "pay-2"]


@pytest.mark.parametrize(("skill", "left", "said"), [(1.0, 2, "proved"), (0.0, 0, "not proved")])
async def test_a_forgetful_prover_leaves_theorems_out_and_says_so(skill, left, said):
    agent = Heard()
    prover = ladder.ForgetfulProver(agent, skill, random.Random(1))
    await prover.call("check_proof", text="Require Import Problem.\nTheorem a : A.\nQed.\nTheorem b : B.\nQed.\n")
    await prover.say("proved")
    assert agent.texts[0].startswith("Require Import Problem.")
    assert (agent.texts[0].count("Theorem"), agent.said) == (left, said)


@pytest.mark.parametrize(("skill", "left"), [(1.0, "(and true (= x (* i i)) (<= i n))"), (0.0, "(and true )")])
async def test_a_forgetful_prover_leaves_conditions_out(skill, left):
    agent = Heard()
    await ladder.ForgetfulProver(agent, skill, random.Random(1)).call("submit", text="(and (= x (* i i)) (<= i n))")
    assert agent.texts == [left]
