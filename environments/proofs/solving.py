"""The golden solution: looks at the goal, searches for the lemmas it needs, tries an answer with Z3, and then hands it in."""

import re

from sandlot import Agent, Task

from .puzzles import LOOPS
from .smt import read_formula

QUERIES = {
    "Nat.mul_add_distr_l": "(_ * (_ + _))",
    "Nat.add_comm": "(_ + _ = _ + _)",
    "Nat.pow_le_mono_r": "(_ ^ _ <= _ ^ _)",
    "Nat.leb_le": "(_ <=? _)",
    "Nat.leb_gt": "(_ <=? _)",
    "Nat.eq_dec": "({_ = _} + {_ <> _})",
    "Z.div_mod": "(_ * (_ / _) + _ mod _)%Z",
    "Z.mod_pos_bound": "(_ mod _ < _)%Z",
    "Z.square_nonneg": "(0 <= _ * _)%Z",
    "app_assoc": "(_ ++ _ ++ _)",
    "app_nil_r": "(_ ++ nil)",
    "rev_app_distr": "(rev (_ ++ _))",
    "length_app": "(length (_ ++ _))",
    "length_seq": "(length (seq _ _))",
    "in_seq": "(In _ (seq _ _))",
    "NoDup_incl_length": "NoDup length",
}
"""Lemmas of the library that proofs use -> the search that finds them."""
FIRST_LOOK = (
    "Require Import Problem.\nTheorem main_goal : main_statement.\nProof.\n  unfold main_statement. intros. Show.\nAbort.\n"
)


async def prove(agent: Agent, task: Task) -> None:
    proof = task.key["proof"]
    await agent.call("check_proof", text=FIRST_LOOK)
    wanted = [name for name in QUERIES if re.search(rf"(?<![\w.]){re.escape(name)}(?![\w'])", proof)]
    for query in dict.fromkeys(QUERIES[name] for name in wanted):
        found = await agent.call("search_library", query=query)
        assert all(f"{name}:" in found for name in wanted if QUERIES[name] == query), f"{query} does not find {wanted}:\n{found}"
    await agent.call("check_proof", text=proof)


async def find_invariant(agent: Agent, task: Task) -> None:
    loop = next(each for each in LOOPS if each.name == task.data["name"])
    for what, script in loop.questions(read_formula(task.key["answer"], loop.names)).items():
        said = await agent.call("run_z3", script=script)
        assert said.strip() == "unsat", f"{what}: {said}"
    await agent.call("submit", text=task.key["answer"])


async def find_values(agent: Agent, task: Task) -> None:
    """Let Z3 look for them; where it finds none in its time, hand in those that a person found."""
    names, conditions = task.data["names"], task.data["conditions"]
    declared = "".join(f"(declare-const {name} Int)\n" for name in names)
    asserted = "".join(f"(assert {text})\n" for text in conditions)
    said = await agent.call("run_z3", script=f"{declared}{asserted}(check-sat)\n(get-value ({' '.join(names)}))\n")
    found = {name: re.search(rf"\({name} (?:(\d+)|\(- (\d+)\))\)", said) for name in names}
    values = [f"{name} = {each[1] or f'-{each[2]}'}" for name, each in found.items() if each]
    await agent.call("submit", text="\n".join(values) if len(values) == len(names) else task.key["answer"])
