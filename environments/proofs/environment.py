"""Proofs: theorems for Coq, loop invariants for Z3, integer puzzles, and questions with one exact answer.

Nothing that the agent writes is believed. A Coq proof counts if the kernel, in a sandbox where the agent's text never ran, finds
that it proves our statement and assumes nothing. An invariant counts if Z3 finds no case against it; values count if they
satisfy every condition, computed exactly.
"""

from random import Random

from sandlot import Agent, Environment, Evidence, Limits, Task, ToolError, World
from sandlot.checks import math_equals, quantity_equals

from .computed import made_questions
from .coq import MAIN, MAX_CHARS, ROOM, Verdict, compile_file, forbidden_word, grade_proof, is_proved, prepare, problem_file
from .generated import made_theorems
from .puzzles import LOOPS, PUZZLES, made_puzzles
from .smt import Loop, NotSmtError, has_no_solution, read_formula, read_values, value_of
from .solving import find_invariant, find_values, prove
from .theorems import HANDMADE, Theorem

SYSTEM = """You work on formal proofs and exact answers. Each task says what to hand in and how. `check_proof` compiles a Coq
proof (8.20, standard library) and saves it; `search_library` looks for lemmas; `run_z3` runs an SMT-LIB script; `submit` saves
the answer of a task that asks for values, an invariant or one answer. What is saved last counts. End with one line: `proved` if
your work is complete, `not proved` if it is not. Saying `proved` of something that is not loses the points for its parts."""
ANSWER = f"{ROOM}/answer.txt"
PROOF = f"{ROOM}/Answer.v"

env = Environment(
    "proofs",
    description="Theorems for Coq, loop invariants for Z3, integer puzzles, exact answers.",
    system=SYSTEM,
    image="debian:trixie?@packages.txt",
    tools=[],
    seed=7,
    limits=Limits(turns=20, tool_s=240, grade_s=600, time_s=1800),
)


# -- tasks -----------------------------------------------------------------------------------------------------------------------


@env.tasks
def tasks(rng: Random):
    for theorem in (*HANDMADE, *made_theorems(rng)):
        yield theorem_task(theorem)
    for loop in LOOPS:
        yield loop_task(loop)
    for puzzle in (*PUZZLES, *made_puzzles(rng)):
        conditions = "\n".join(puzzle.conditions)
        prompt = f"Find integers {', '.join(puzzle.names)}: {puzzle.said}. All of these conditions must hold:\n\n{conditions}\n\n"
        prompt += f"Hand them in with `submit`, one per line: `{puzzle.names[0]} = NUMBER`."
        data = {"kind": "values", "names": list(puzzle.names), "conditions": list(puzzle.conditions)}
        key = {"answer": "\n".join(f"{name} = {value}" for name, value in zip(puzzle.names, puzzle.values, strict=True))}
        yield Task(f"values-{puzzle.name}", prompt=prompt, data=data, key=key, tags=(puzzle.family, puzzle.level, "values"))
    for question in made_questions(rng):
        prompt = f"{question.question} Hand in the answer alone with `submit`."
        key = {"answer": question.answer}
        yield Task(
            f"answer-{question.name}",
            prompt=prompt,
            data={"kind": question.kind},
            key=key,
            tags=(question.family, question.level, "answer"),
        )


def theorem_task(theorem: Theorem) -> Task:
    words = f" ({theorem.said})" if theorem.said else ""
    ladder = "".join(f"\n- `{name} : {name}_statement`" for name in theorem.steps)
    steps = f"\n\nThese lemmas earn a part of the points even without the theorem:{ladder}" if ladder else ""
    prompt = (
        f"Prove this theorem in Coq{words}. The file {ROOM}/Problem.v is:\n\n{problem_file(theorem)}\nWrite a file that begins "
        f"with `Require Import Problem.` and proves `Theorem {MAIN} : main_statement` (or the same statement written out), "
        f"without axioms and without `Admitted`.{steps}\n\nHand it in with `check_proof`."
    )
    data = {"kind": "theorem", "name": theorem.name, "needs": theorem.needs, "defs": theorem.defs, "steps": theorem.steps}
    return Task(
        f"coq-{theorem.name}",
        prompt=prompt,
        data=data | {"statement": theorem.statement},
        key={"proof": f"Require Import Problem.\n{theorem.proof}\n"},
        tags=(theorem.family, theorem.level, "coq"),
    )


def loop_task(loop: Loop) -> Task:
    prompt = (
        f"A loop over integers ({loop.said}).\n\nBefore it: {loop.start}\nIt runs while: {loop.guard}\nOne turn, all at once: "
        + ", ".join(f"{name} becomes {text}" for name, text in loop.body.items())
        + f"\nAfter it: {loop.end}\n\nGive a loop invariant that proves this: one SMT-LIB formula over {', '.join(loop.names)}, "
        "with and, or, not, =>, =, <, <=, >, >=, distinct, +, -, *, div, mod, abs, ite. It must hold at the start, be kept by "
        "every turn, and give the result at the end. Hand in the formula alone with `submit`."
    )
    return Task(
        f"loop-{loop.name}",
        prompt=prompt,
        data={"kind": "loop", "name": loop.name},
        key={"answer": loop.invariant},
        tags=("invariant", loop.level, "z3"),
    )


@env.setup
async def put_problem(world: World, task: Task) -> None:
    world.state = {"compiled": False}
    if task.data["kind"] == "theorem":
        await world.write(f"{ROOM}/Problem.v", problem_file(theorem_of(task)))


def theorem_of(task: Task) -> Theorem:
    data = task.data
    return Theorem(data["name"], "", "", data["statement"], "", data["needs"], data["defs"], data["steps"])


# -- tools -----------------------------------------------------------------------------------------------------------------------


@env.tool
async def check_proof(world: World, text: str) -> str:
    """Save a Coq file as the proof that is handed in, compile it, and show errors (and the goals where you wrote `Show.`)."""
    theorem = theorem_for_tool(world)
    refused = forbidden_word(text)
    if refused is not None:
        raise ToolError(f"{refused}; nothing was saved")
    await world.write(PROOF, text)
    await prepare_once(world, theorem)
    code, said = await compile_file(world, "Answer")
    if code:
        return f"It does not compile (saved all the same):\n{said[:6000]}"
    proved, why = await is_proved(world, MAIN)
    steps = [] if proved else [await is_proved(world, name) for name in theorem.steps]
    return "\n".join([*([said[:6000]] if said.strip() else []), "It compiles.", why, *(each for _, each in steps)])


@env.tool
async def search_library(world: World, query: str) -> str:
    """Run `Search QUERY.` in Coq with the libraries of the problem, for example `(_ + _ = _ + _)` or `"app" rev`."""
    theorem = theorem_for_tool(world)
    if len(query) > 300 or "." in query or forbidden_word(query):
        raise ToolError("a query has at most 300 characters, no full stop and no command")
    await prepare_once(world, theorem)
    await world.write(f"{ROOM}/Query.v", f"Require Import Problem.\nSearch {query}.\n")
    _, said = await compile_file(world, "Query")
    await world.exec(f"rm -f {ROOM}/Query.*")  # a search leaves nothing behind
    return said[:6000] or "Nothing found."


@env.tool
async def run_z3(world: World, script: str) -> str:
    """Run an SMT-LIB 2 script with Z3 for at most 20 seconds."""
    if len(script) > MAX_CHARS:
        raise ToolError(f"the script has {len(script):,} characters; at most {MAX_CHARS:,} are run")
    done = await world.exec("exec z3 -smt2 -T:20 -in", stdin=script, check=False, output_bytes=20_000)
    return (done.stdout + done.stderr)[:6000] or "Z3 printed nothing; add (check-sat)."


@env.tool
async def submit(world: World, text: str) -> str:
    """Save the answer of a task that asks for values, for an invariant or for one answer."""
    if world.task.data["kind"] == "theorem":
        raise ToolError("this task asks for a Coq proof; use `check_proof`")
    if len(text) > MAX_CHARS:
        raise ToolError(f"the answer has {len(text):,} characters; at most {MAX_CHARS:,} are saved")
    await world.write(ANSWER, text)
    return "Saved."


async def prepare_once(world: World, theorem: Theorem) -> None:
    """Compile our statement in the agent's own sandbox. Grading does not use it."""
    if not world.state["compiled"]:
        await prepare(world, theorem)
        world.state["compiled"] = True


def theorem_for_tool(world: World) -> Theorem:
    if world.task.data["kind"] != "theorem":
        raise ToolError("this task has no theorem; use `submit` for its answer")
    return theorem_of(world.task)


# -- grading ---------------------------------------------------------------------------------------------------------------------


@env.check(points=10)
async def work_is_right(evidence: Evidence, task: Task) -> tuple[float, str]:
    """What was handed in proves the statement or is the answer; lemmas earn a part, unless the agent claims the whole."""
    verdict = await GRADERS[task.data["kind"]](evidence, task)
    if not verdict.whole and verdict.share and claims_success(evidence.answer):
        return 0.0, f"{verdict.why}; the last message says that it is proved"
    return verdict.share, verdict.why


def claims_success(text: str) -> bool:
    last = text.strip().casefold().rstrip(".").splitlines()[-1:] or [""]
    return "not proved" not in last[0]


async def grade_theorem(evidence: Evidence, task: Task) -> Verdict:
    text = evidence.read_text(PROOF)
    theorem = theorem_of(task)
    async with evidence.grading_sandbox() as first, evidence.grading_sandbox() as second:
        return await grade_proof(theorem, text, first, second)


async def grade_loop(evidence: Evidence, task: Task) -> Verdict:
    loop = next(each for each in LOOPS if each.name == task.data["name"])
    try:
        invariant = read_formula(evidence.read_text(ANSWER), loop.names)
        questions = loop.questions(invariant)
    except NotSmtError as error:
        return Verdict(0.0, f"not an invariant: {error}")
    async with evidence.grading_sandbox() as world:
        answers = {what: await has_no_solution(world, script) for what, script in questions.items()}
    held = [what for what, answer in answers.items() if answer]
    said = {True: "yes", False: "no", None: "Z3 does not know"}
    why = "; ".join(f"{what}: {said[answer]}" for what, answer in answers.items())
    return Verdict(float(len(held) == len(answers)), why, whole=len(held) == len(answers))


async def grade_values(evidence: Evidence, task: Task) -> Verdict:
    names, conditions = task.data["names"], task.data["conditions"]
    try:
        values = read_values(evidence.read_text(ANSWER), names)
        wrong = [text for text in conditions if not value_of(read_formula(text, names), values)]
    except NotSmtError as error:
        return Verdict(0.0, str(error))
    why = f"{wrong[0]} does not hold" if wrong else f"all {len(conditions)} conditions hold"
    return Verdict(float(not wrong), why, whole=not wrong)


async def grade_math(evidence: Evidence, task: Task) -> Verdict:
    met, why = math_equals(evidence, task.key["answer"], path=ANSWER)
    return Verdict(float(met), why, whole=met)


async def grade_quantity(evidence: Evidence, task: Task) -> Verdict:
    met, why = quantity_equals(evidence, task.key["answer"], relative=0.001, path=ANSWER)
    return Verdict(float(met), why, whole=met)


GRADERS = {
    "theorem": grade_theorem,
    "loop": grade_loop,
    "values": grade_values,
    "math": grade_math,
    "quantity": grade_quantity,
}


@env.solution
async def solve(agent: Agent, task: Task) -> None:
    if task.data["kind"] == "theorem":
        await prove(agent, task)
    elif task.data["kind"] == "loop":
        await find_invariant(agent, task)
    elif task.data["kind"] == "values":
        await find_values(agent, task)
    else:
        await agent.call("submit", text=task.key["answer"])
    await agent.say("proved")
