"""How a Coq proof is checked.

The statement is ours. It is compiled first, alone, as `Problem.main_statement`. The agent's file is compiled in a sandbox of its
own, and nothing of that sandbox is kept but the compiled module. In a fresh sandbox, our own file then asks the kernel whether
`Answer.main_goal` has the type `Problem.main_statement`, with the agent's module loaded but not imported, and what it assumes.
Redefined types, notations, flags and printing settings of the agent therefore change nothing: the type is a term that was fixed
before, and the only accepted report is `Closed under the global context`.
"""

import re
from dataclasses import dataclass

from sandlot import World

from .theorems import Theorem

ROOM = "/work"
MAIN = "main_goal"
CLOSED = "Closed under the global context\n"
MAX_CHARS = 60_000
CPU_S, WALL_S = 30, 100
FILE_KB = 20_000
HEAP = "s=1M,o=120,d=2"
"""Coq reserves 32 GB of addresses unless it is told not to, and fails where addresses are limited."""

FORBIDDEN = {
    "ML": "loads a plug-in",
    "Load": "reads another file",
    "Redirect": "writes a file",
    "Extraction": "writes a file",
    "Drop": "leaves Coq",
    "Cd": "changes the folder",
    "Pwd": "reads the folder",
    "LoadPath": "changes where modules are found",
    "native_compute": "runs compiled code",
    "native_cast_no_check": "runs compiled code",
    "bypass_check": "turns a check of the kernel off",
    "Checking": "turns a check of the kernel off",
    "Symbol": "changes what is equal",
    "Profile": "writes a file",
}
"""Words that a proof may not contain, in comments too. The guarantee is the fresh sandbox and the kernel, not this list."""


@dataclass(frozen=True)
class Verdict:
    """What a submission earned: a share from 0 to 1, and why. `whole` is true if everything is proved."""

    share: float
    why: str
    whole: bool = False


def problem_file(theorem: Theorem) -> str:
    """`Problem.v`: libraries, definitions and statements, the same for the agent and for grading."""
    lines = [f"Require Export {theorem.needs}."] if theorem.needs else []
    lines += ["Export ListNotations."] if "List" in theorem.needs.split() else []
    lines += [theorem.defs] if theorem.defs else []
    lines += [f"Definition {name}_statement : Prop := {text}." for name, text in theorem.steps.items()]
    return "\n".join([*lines, f"Definition main_statement : Prop := {theorem.statement}.", ""])


def check_file(name: str) -> str:
    """Our question to the kernel about one name of the agent's module, which is loaded and not imported."""
    statement = "main_statement" if name == MAIN else f"{name}_statement"
    return f"""Require Problem.
Require Answer.
Set Guard Checking. Set Positivity Checking. Set Universe Checking.
Definition checked : Problem.{statement} := Answer.{name}.
Print Assumptions checked.
"""


def forbidden_word(text: str) -> str | None:
    """Why a text is refused before it is compiled; None if it is not."""
    if len(text) > MAX_CHARS:
        return f"the proof has {len(text):,} characters; at most {MAX_CHARS:,} are compiled"
    for word, why in FORBIDDEN.items():
        if re.search(rf"(?<![\w']){word}s?(?![\w'])", text):
            return f"`{word}` is not allowed: it {why}"
    return None


async def compile_file(world: World, name: str) -> tuple[int, str]:
    """Compile one file of the room: the exit code and what was printed. `RuntimeError` if it is not the proof's fault."""
    limits = f"ulimit -t {CPU_S}; ulimit -f {FILE_KB}"
    # coqc leaves its timings in hidden files: the evidence must be the same each time
    command = f"{limits}; timeout -s KILL {WALL_S} coqc -q -w none -noglob {name}.v; code=$?; rm -f .*.aux; exit $code"
    done = await world.exec(
        command, cwd=ROOM, env={"LC_ALL": "C.UTF-8", "HOME": ROOM, "OCAMLRUNPARAM": HEAP}, check=False, output_bytes=200_000
    )
    if done.code in {126, 127} or "timeout: " in done.stderr[:200]:
        raise RuntimeError(f"coqc did not run: {done.stderr[:300]}")
    return done.code, done.stdout if name.startswith("Check") else done.stdout + done.stderr


async def prepare(world: World, theorem: Theorem) -> None:
    """Put our statement into a fresh room and compile it."""
    await world.write(f"{ROOM}/Problem.v", problem_file(theorem))
    code, said = await compile_file(world, "Problem")
    if code:
        raise RuntimeError(f"the statement of `{theorem.name}` does not compile ({code}): {said[:500]}")


async def is_proved(world: World, name: str) -> tuple[bool, str]:
    """Whether the compiled module `Answer` of the room proves the statement of a name, without any assumption."""
    await world.write(f"{ROOM}/Check_{name}.v", check_file(name))
    code, said = await compile_file(world, f"Check_{name}")
    if code:
        return False, f"`{name}` is missing, or is not a proof of the statement"
    return said == CLOSED, f"`{name}` is proved" if said == CLOSED else f"`{name}` assumes: {' '.join(said.split())[:200]}"


async def grade_proof(theorem: Theorem, text: str, world: World, fresh: World) -> Verdict:
    """Compile the agent's text in one sandbox, and ask the kernel about the result in another."""
    refused = forbidden_word(text)
    if refused is not None:
        return Verdict(0.0, refused)
    await prepare(fresh, theorem)
    await world.write(f"{ROOM}/Problem.vo", await fresh.read(f"{ROOM}/Problem.vo"))
    await world.write(f"{ROOM}/Answer.v", text)
    code, said = await compile_file(world, "Answer")
    if code:
        return Verdict(0.0, _failure(code, said))
    await fresh.write(f"{ROOM}/Answer.vo", await world.read(f"{ROOM}/Answer.vo"))
    proved, why = await is_proved(fresh, MAIN)
    if proved:
        return Verdict(1.0, why, whole=True)
    steps = {name: await is_proved(fresh, name) for name in theorem.steps}
    done = [name for name, (met, _) in steps.items() if met]
    share = LADDER * len(done) / len(theorem.steps) if theorem.steps else 0.0
    return Verdict(share, f"{why}; lemmas proved: {', '.join(done) or 'none'} of {len(theorem.steps)}")


LADDER = 0.4
"""Share of the points for the lemmas alone."""


def _failure(code: int, said: str) -> str:
    if code in {137, 152, 158}:
        return f"the proof needs more than {CPU_S} s, or leaves too large a file"
    return "the proof does not compile: " + " ".join(said.split())[:300]
