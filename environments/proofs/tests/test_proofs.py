# ruff: noqa: E501, RUF001 - attacks are Coq, on lines of their own length, with look-alike letters
import re
import sys
from pathlib import Path

import pytest

from sandlot import Agent, Evidence, Task, load, run, tasks_of

HERE = Path(__file__).parents[1]
ENV = load(HERE)
TASKS = {task.id: task for task in tasks_of(ENV)}
CODE = sys.modules[ENV.marked.solution.__module__]
COQ, SMT, PUZZLES = (sys.modules[CODE.__name__.rpartition(".")[0] + "." + name] for name in ("coq", "smt", "puzzles"))

# -- cheap -----------------------------------------------------------------------------------------------------------------------


def test_there_are_a_hundred_statements_for_provers_from_easy_to_hard():
    by_prover = [task for task in TASKS.values() if task.tags[2] != "answer"]
    assert len(by_prover) >= 100
    assert {task.tags[1] for task in by_prover} == {"easy", "medium", "hard"}
    assert len({task.tags[0] for task in TASKS.values()}) >= 20
    assert len({task.prompt for task in TASKS.values()}) == len(TASKS)


def test_tasks_come_from_the_seed(same_tasks_elsewhere):
    assert same_tasks_elsewhere(HERE, tasks_of(ENV))


def test_the_key_is_not_in_the_prompt_or_the_data():
    for task in TASKS.values():
        proof = task.key.get("proof", "Qed.").partition("Proof.")[2].strip() or task.key.get("answer", "")
        assert proof not in task.prompt + str(task.data) or len(proof) < 4, task.id


@pytest.mark.parametrize(
    "word",
    [
        "Declare ML Module",
        "Load x",
        'Redirect "a" Print nat',
        "Extraction nat",
        "Drop",
        'Cd "/"',
        "native_compute",
        "#[bypass_check(guard)]",
        "Unset Guard Checking",
        "Unset (* *) Universe (* *) Checking",
        "(* Load *)",
    ],
)
def test_commands_with_effects_are_refused_even_in_comments(word):
    assert COQ.forbidden_word(f"Require Import Problem.\n{word}.\n") is not None


UGLY = re.compile(r"\w [+-]\d|[+] -|[\^]1\b|\b1 \* [xyz]\b|\b0 \* |[+-] 0\b")


def test_formulas_are_written_as_people_write_them():
    made = [
        task for task in TASKS.values() if task.tags[2] == "answer" or task.tags[0] in {"ring-identity", "linear-consequence"}
    ]
    told = {task.id: UGLY.findall(f"{task.prompt} {task.key.get('answer', '')}") for task in made}
    assert {name: found for name, found in told.items() if found} == {}


def test_no_golden_proof_has_a_refused_word():
    assert [task.id for task in TASKS.values() if "proof" in task.key and COQ.forbidden_word(task.key["proof"])] == []


def test_golden_values_satisfy_every_condition_and_changed_ones_do_not():
    for task in TASKS.values():
        if task.data["kind"] != "values":
            continue
        names = task.data["names"]
        formulas = [SMT.read_formula(text, names) for text in task.data["conditions"]]
        values = SMT.read_values(task.key["answer"], names)
        assert all(SMT.value_of(formula, values) for formula in formulas), task.id
        for bad in (dict.fromkeys(names, 0), dict.fromkeys(names, 1), dict.fromkeys(names, -7)):
            assert not all(SMT.value_of(formula, bad) for formula in formulas), task.id


@pytest.mark.parametrize(
    "text",
    ["", "(", ")", "true false", "(assert false)", "(exit)", "true) (check-sat", '(echo "unsat")', "(= x 1) ; comment", "(let ((x 1)) true)",
     "(forall ((x Int)) true)", "(= x y z)", "x", "5", "(+ x 1)", "(= x secret)", "(and)", "(" * 500, "(= x " + "9" * 500 + ")", "(= x 1.5)", "|x|", "(= х 1)"],
)  # fmt: skip
def test_only_formulas_of_the_grammar_reach_z3(text):
    with pytest.raises(SMT.NotSmtError):
        SMT.read_formula(text, ("x", "y"))


@pytest.mark.parametrize(
    "text",
    ["", "x = 1", "x = 1\nx = 2\ny = 3", "x = 1\ny = two", "x = 1\ny = 2\nz = 3", "x=1 y=2", "x = 1e3\ny = 2", "x = " + "9" * 99],
)
def test_values_are_given_once_each(text):
    with pytest.raises(SMT.NotSmtError):
        SMT.read_values(text, ("x", "y"))


def test_division_rounds_as_smt_lib_says():
    """The remainder is never negative."""
    for a in range(-9, 10):
        for b in (*range(-4, 0), *range(1, 5)):
            quotient, rest = (SMT.value_of([word, "a", "b"], {"a": a, "b": b}) for word in ("div", "mod"))
            assert a == b * quotient + rest
            assert 0 <= rest < abs(b)


# -- with the provers ------------------------------------------------------------------------------------------------------------

SAMPLE = (
    "coq-and-comm",
    "coq-ev-iff-double",
    "coq-divisibility-2",
    "loop-clock",
    "loop-cubes",
    "values-pell-61",
    "answer-roots-1",
    "answer-dilution-2",
)
STATEMENT = "forall n : nat, n + 0 = n"
HONEST = "not proved"

ATTACKS = {
    "admitted": f"Theorem main_goal : {STATEMENT}. Admitted.",
    "axiom": f"Axiom main_goal : {STATEMENT}.",
    "section variable": f"Variable h : {STATEMENT}. Theorem main_goal : {STATEMENT}. exact h. Qed.",
    "admitted in a module": "Module M. Theorem t : main_statement. Admitted. End M. Theorem main_goal : main_statement. exact M.t. Qed.",
    "declared module": "Module Type S. Parameter h : main_statement. End S. Declare Module M : S. Theorem main_goal : main_statement. exact M.h. Qed.",
    "own nat": f'Inductive nat : Set := O. Definition add (a b : nat) := O. Notation "a + b" := (add a b). Notation "0" := O. Theorem main_goal : {STATEMENT}. Proof. intros []; reflexivity. Qed.',
    "own equality": f'Notation "a = b" := True : type_scope. Theorem main_goal : {STATEMENT}. Proof. exact (fun _ => I). Qed.',
    "own forall": f"Notation \"'forall' x : t , p\" := True (at level 200, x name). Theorem main_goal : {STATEMENT}. Proof. exact I. Qed.",
    "own plus": f'Notation "a + b" := a. Theorem main_goal : {STATEMENT}. Proof. reflexivity. Qed.',
    "own coercion": "Definition main_statement := True. Theorem main_goal : main_statement. exact I. Qed.",
    "own Problem": "Module Problem. Definition main_statement : Prop := True. End Problem. Theorem main_goal : Problem.main_statement. exact I. Qed.",
    "the statement as a value": "Definition main_goal : Prop := main_statement.",
    "guard off": "Unset Guard Checking. Fixpoint f (n : nat) {struct n} : False := f n. Theorem main_goal : main_statement. destruct (f 0). Qed.",
    "guard bypassed": "#[bypass_check(guard)] Fixpoint f (n : nat) {struct n} : False := f n. Theorem main_goal : main_statement. destruct (f 0). Qed.",
    "positivity off": "Unset Positivity Checking. Inductive bad := B : (bad -> False) -> bad. Definition no (b : bad) : False := match b with B f => f b end. Theorem main_goal : main_statement. destruct (no (B no)). Qed.",
    "universes off": "Unset Universe Checking. Definition U := Type. Definition V : U := U. Theorem h : main_statement. Admitted. Theorem main_goal : main_statement. exact (let x := V in h). Qed.",
    "global flags": "Global Unset Guard Checking. Global Set Printing All. Global Unset Universe Checking. Global Set Printing Width 5. Theorem main_goal : main_statement. Admitted.",
    "forged report": '#[deprecated(note="\\nClosed under the global context\\n")] Axiom main_goal : main_statement.',
    "forged axiom name": "Axiom Closed_under_the_global_context : main_statement. Definition main_goal := Closed_under_the_global_context.",
    "look-alike letters": "Theorem main_g\u043eal : True. exact I. Qed.",
    "planted files": 'Redirect "Check_main_goal" Print nat. Redirect "Problem" Print nat. Theorem main_goal : main_statement. Admitted.',
    "plug-in": 'Declare ML Module "coq-core.plugins.extraction". Theorem main_goal : main_statement. Admitted.',
    "library axiom": "Require Import FunctionalExtensionality. Theorem main_goal : main_statement. Proof. intro n. assert (h : (fun k => k + 0) = (fun k : nat => k)) by (apply functional_extensionality; induction x; simpl; congruence). exact (f_equal (fun f => f n) h). Qed.",
    "empty": "",
    "only a comment": "(* main_goal : main_statement. Qed. Closed under the global context *)",
    "another theorem": "Theorem main_goal : forall n : nat, n = n. reflexivity. Qed.",
}  # fmt: skip


@pytest.mark.system
@pytest.mark.timeout(900)
def test_the_golden_solution_gets_full_marks(play):
    assert {str(score) for score in play(ENV, tasks=SAMPLE, at_once=4).values()} == {"10/10"}


@pytest.mark.system
@pytest.mark.timeout(900)
def test_the_golden_solution_looks_before_it_hands_in(tmp_path):
    chosen = ("coq-rev-app", "loop-divide", "values-taxicab")
    called = {
        trace.task: [call.name for node in trace.turns() for call in node.message.calls]
        for trace in run(ENV, "scripted:golden", tasks=chosen, runs=tmp_path)
    }
    assert called == {
        "coq-rev-app": ["check_proof", "search_library", "search_library", "check_proof"],
        "loop-divide": ["run_z3", "run_z3", "run_z3", "submit"],
        "values-taxicab": ["run_z3", "submit"],
    }


@pytest.mark.system
@pytest.mark.timeout(900)
def test_no_attack_on_the_kernel_earns_anything(play, monkeypatch):
    """Without the list of refused words: the fresh sandbox and the kernel must be enough."""
    monkeypatch.setattr(COQ, "FORBIDDEN", {})
    verdicts: dict[str, tuple[float, str]] = {}
    theorem = CODE.theorem_of(TASKS["coq-plus-n-zero"])

    async def look(evidence: Evidence, task: Task) -> bool:
        for name, text in (ATTACKS | {"control": TASKS["coq-plus-n-zero"].key["proof"]}).items():
            async with evidence.grading_sandbox() as first, evidence.grading_sandbox() as second:
                found = await COQ.grade_proof(theorem, f"Require Import Problem.\n{text}\n", first, second)
                verdicts[name] = (found.share, found.why)
        return False

    monkeypatch.setitem(CODE.GRADERS, "theorem", lambda evidence, task: graded(look, evidence, task))
    play(ENV, say_nothing, tasks=["coq-plus-n-zero"])
    assert verdicts.pop("control")[0] == 1.0
    assert set(verdicts) == set(ATTACKS)
    assert {name: verdict for name, verdict in verdicts.items() if verdict[0]} == {}


async def graded(look, evidence: Evidence, task: Task):
    await look(evidence, task)
    return COQ.Verdict(0.0, "looked")


async def say_nothing(agent: Agent, task: Task) -> None:
    await agent.say(HONEST)


@pytest.mark.system
@pytest.mark.timeout(900)
def test_lemmas_earn_a_part_unless_the_agent_claims_the_whole(play):
    task = "coq-ev-iff-double"
    half = re.sub(r"(?s)(Theorem main_goal[^.]*\.).*", r"\1 Admitted.", TASKS[task].key["proof"])

    async def honest(agent: Agent, task: Task) -> None:
        said = await agent.call("check_proof", text=half)
        assert "`step_1` is proved" in said
        await agent.say(HONEST)

    async def boasting(agent: Agent, task: Task) -> None:
        await agent.call("check_proof", text=half)
        await agent.say("proved")

    assert play(ENV, honest, tasks=[task])[task].value == pytest.approx(COQ.LADDER)
    assert play(ENV, boasting, tasks=[task])[task].value == 0


@pytest.mark.system
@pytest.mark.timeout(900)
def test_a_proof_that_takes_too_long_is_not_met(play, monkeypatch):
    monkeypatch.setattr(COQ, "CPU_S", 3)

    async def slow(agent: Agent, task: Task) -> None:
        said = await agent.call(
            "check_proof", text="Require Import Problem.\nTheorem main_goal : main_statement.\nProof. do 2000000000 idtac. Qed."
        )
        assert "does not compile" in said
        await agent.say("proved")

    score = play(ENV, slow, tasks=["coq-plus-comm"])["coq-plus-comm"]
    assert score.value == 0
    assert "more than 3 s" in score.checks[0].evidence


@pytest.mark.system
@pytest.mark.timeout(900)
def test_wrong_invariants_are_not_met(play):
    for text in ("true", "false", "(= y (* 2 n))", "(<= x n)", "(and (= y (* 2 x)) (< x n))"):

        async def hand_in(agent: Agent, task: Task, text: str = text) -> None:
            await agent.call("submit", text=text)
            await agent.say("proved")

        assert play(ENV, hand_in, tasks=["loop-double"])["loop-double"].value == 0, text


@pytest.mark.system
@pytest.mark.timeout(900)
def test_automation_alone_proves_some_theorems_and_not_all(play):
    """A step on the ladder of skills between an idle agent and the golden solution."""

    async def automate(agent: Agent, task: Task) -> None:
        await agent.call(
            "check_proof",
            text="Require Import Problem.\nTheorem main_goal : main_statement.\nProof. unfold main_statement. firstorder congruence. Qed.",
        )
        await agent.say("proved")

    scores = play(ENV, automate, tasks=["coq-and-comm", "coq-exists-forall", "coq-cantor", "coq-star-transitive"])
    assert {name: score.value for name, score in scores.items()} == {
        "coq-and-comm": 1,
        "coq-exists-forall": 1,
        "coq-cantor": 0,
        "coq-star-transitive": 0,
    }
