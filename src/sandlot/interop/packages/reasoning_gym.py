# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
"""reasoning-gym's generators: one question and one answer each, scored by the generator's own `score_answer`.

    reasoning-gym:leg_counting?size=50&seed=7&max_animals=5      one generator, with its settings
    reasoning-gym:all?size=2                                     every generator

The entries are stored with the tasks, since some generators make other questions in another process (they iterate over sets).

Some scorers evaluate the answer as Python (`eval`, sympy's `parse_expr`), so an answer could run code in the grader, or read the
right answer from the scorer's variables. Here `eval` is replaced by `ast.literal_eval` in those modules, and an answer that is no
plain formula is scored as one that cannot be parsed. Answers that are literals and formulas get the same scores.
"""

import ast
import builtins
import functools
import inspect
import json
import keyword
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import msgspec

from sandlot.core.errors import ConfigError, boundary
from sandlot.core.ports.grading import Evidence
from sandlot.core.ports.importer import ImportedTask, ImportReport, LeftOut
from sandlot.core.rubric import PythonCheck, Rubric
from sandlot.core.task import Task
from sandlot.core.types import Json
from sandlot.interop.folder_writer import EnvironmentDraft, environment_name, write_environment
from sandlot.interop.packages.requirement import package_licence, package_version, require_package

_PACKAGE = "reasoning-gym"
_SYSTEM = "Answer with the final answer only, or think first and put it between <answer> and </answer>."
_CHECKS = '''\
"""The scores of reasoning-gym itself."""

from sandlot import Evidence, Task
from sandlot.interop.packages.reasoning_gym import load_generators, score_entry

REQUIRES = "{requires}"
load_generators(REQUIRES)


def score(evidence: Evidence, task: Task) -> tuple[float, str]:
    return score_entry(evidence, task)
'''
_SOLUTION = '''\
"""The generator's own answer."""

from sandlot import Agent, Task


async def solve(agent: Agent, task: Task) -> None:
    await agent.say(task.key["answer"])
'''
_EXAMPLES = ("example_answer", "example_correct_answer", "possible_answer")
"""Metadata with a right answer, where the entry has none because there are many."""
_EVALUATED = frozenset({"string_insertion", "spiral_matrix", "binary_matrix", "n_queens"})
"""Generators whose scorer calls `eval` on the answer."""
_PARSED = frozenset({"countdown", "puzzle24", "simple_integration", "intermediate_integration", "polynomial_multiplication"})
"""Generators whose scorer calls sympy's `parse_expr` on the answer."""
_UNPARSABLE = "("
_ANSWER = re.compile(r"<answer>\s?(.*?)\s?</answer>", re.DOTALL)
_EVALUATES = re.compile(r"\b(?:eval|exec|parse_expr|sympify)\(")
_FUNCTIONS = frozenset(
    {
        "sin",
        "cos",
        "tan",
        "sec",
        "csc",
        "cot",
        "asin",
        "acos",
        "atan",
        "sinh",
        "cosh",
        "tanh",
        "exp",
        "log",
        "ln",
        "sqrt",
        "pi",
        "Abs",
    }
)
_MAX_FORMULA_CHARS = 2000
_MAX_EXPONENT = 200


class ReasoningGymImporter:
    """`reasoning-gym:NAME` (port `Importer`)."""

    kind = "reasoning-gym"

    def digest(self, source: str) -> str:  # noqa: ARG002 - the source is its name
        """Changes with the package."""
        return package_version(_PACKAGE)

    def write(self, source: str, folder: Path, *, limit: int | None) -> ImportReport:
        """Write the environment. A generator that fails, or whose own answer does not get 1.0, is left out with the reason."""
        requires = f"{_PACKAGE}=={package_version(_PACKAGE)}"
        named = _read_source(source)
        tasks: list[Task] = []
        left_out: list[LeftOut] = []
        for name in _names(named.name, requires):
            try:
                with boundary(ConfigError, f"generator `{name}`"):
                    tasks += _tasks_of(name, named)
            except ConfigError as error:
                left_out.append(LeftOut(what=name, why=str(error)[:500]))
            if limit is not None and len(tasks) >= limit:
                break
        tasks = tasks[:limit]
        draft = EnvironmentDraft(
            name=environment_name(f"reasoning-gym-{named.name}"),
            settings={"description": f"{named.name} of {requires}.", "system": _SYSTEM, "limits": {"turns": 1}},
            tasks=tasks,
            rubrics={"default": Rubric(checks=(PythonCheck(id="score", ref="checks:score", isolate=True),))},
            code={"checks.py": _CHECKS.format(requires=requires), "solution.py": _SOLUTION},
        )
        write_environment(folder, draft)
        licence = package_licence(_PACKAGE)
        guarded = sorted({task.key["generator"] for task in tasks} & (_EVALUATED | _PARSED))
        return ImportReport(
            kind=self.kind,
            source=source,
            package=_PACKAGE,
            version=package_version(_PACKAGE),
            tasks=tuple(ImportedTask(id=task.id, origin=task.id, licence=licence) for task in tasks),
            left_out=tuple(left_out),
            notes=tuple(
                [f"the package's scorers evaluate the answer as code; here only literals and formulas: {', '.join(guarded)}"]
                if guarded
                else []
            ),
        )


class _Named(msgspec.Struct, frozen=True):
    """A source's name, read."""

    name: str
    size: int
    seed: int
    settings: Json


def _read_source(source: str) -> _Named:
    name, _, query = source.partition("?")
    settings = {key: _value(value) for key, value in parse_qsl(query, keep_blank_values=True)}
    size, seed = settings.pop("size", 50), settings.pop("seed", 0)
    if not name or not isinstance(size, int) or not isinstance(seed, int) or size < 1:
        raise ConfigError(f"`{source}`: write `GENERATOR?size=50&seed=0`, with further settings of the generator")
    if name == "all" and settings:
        raise ConfigError(f"`{source}`: `{next(iter(settings))}` is a setting of one generator; name it, or leave it out")
    return _Named(name, size, seed, settings)


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


def _names(name: str, requires: str) -> list[str]:
    require_package(requires, "reasoning_gym")
    from reasoning_gym.factory import DATASETS  # noqa: PLC0415  # pyright: ignore[reportMissingImports] - imported where it is used

    if name == "all":
        return sorted(DATASETS)
    if name not in DATASETS:
        raise ConfigError(f"{requires} has no generator `{name}`; it has: all, {', '.join(sorted(DATASETS))}")
    return [name]


def _tasks_of(name: str, named: _Named) -> Iterator[Task]:
    dataset = _dataset(name, named.size, named.seed, msgspec.json.encode(named.settings))
    for index in range(named.size):
        stored = pack(dataset[index])
        entry = unpack(stored)
        answer = _golden_answer(name, dataset, entry)
        key = {"generator": name, "size": named.size, "seed": named.seed, "settings": named.settings, "entry": stored}
        yield Task(f"{name}-{index}", prompt=entry["question"], key={**key, "answer": answer}, tags=(name,))


def _golden_answer(name: str, dataset: Any, entry: Json) -> str:
    """An answer that the scorer gives full marks: the entry's own, or the example in its metadata."""
    known = [entry["answer"], *(entry["metadata"].get(key) for key in _EXAMPLES)]
    answers = [json.dumps(each) if isinstance(each, dict) else each for each in known if each is not None]
    scores = [_score(name, dataset, entry, each) for each in answers if isinstance(each, str)]
    if 1.0 not in scores:
        said = f"{answers[0]!r:.80} gets {scores[0]:g}" if scores else "it gives none"
        raise ConfigError(f"no answer of its own gets full marks from its own scorer: {said}")
    return next(each for each in answers if isinstance(each, str) and _score(name, dataset, entry, each) == 1.0)


def pack(value: Any) -> Any:
    """An entry as JSON, from which `unpack` makes an equal one: tuples, sets and keys that are not text are marked."""
    if isinstance(value, dict):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {key: pack(item) for key, item in value.items()}
        return {"$dict": [[pack(key), pack(item)] for key, item in value.items()]}
    if isinstance(value, tuple | set | frozenset):
        return {f"${type(value).__name__}": [pack(item) for item in value]}
    if isinstance(value, list):
        return [pack(item) for item in value]
    plain = value.item() if getattr(value, "shape", None) == () else value  # a number or text of numpy
    if plain is None or type(plain) in {str, bool, int, float}:
        return plain
    raise ConfigError(f"an entry holds a {type(value).__name__}, which cannot be stored as JSON")


_MARKS: dict[str, Callable[[Any], Any]] = {"$tuple": tuple, "$set": set, "$frozenset": frozenset, "$dict": dict}


def unpack(value: Any) -> Any:
    """What `pack` was given."""
    if isinstance(value, list):
        return [unpack(item) for item in value]
    if not isinstance(value, dict):
        return value
    mark = next(iter(value), "") if len(value) == 1 else ""
    if mark in _MARKS:
        return _MARKS[mark](unpack(item) for item in value[mark])
    return {key: unpack(item) for key, item in value.items()}


def load_generators(requires: str) -> None:
    """Import the package before the first rollout; `ConfigError` if it is not the version of the import."""
    require_package(requires, "reasoning_gym")


@functools.lru_cache(maxsize=256)
def _dataset(name: str, size: int, seed: int, settings: bytes) -> Any:
    import reasoning_gym  # noqa: PLC0415  # pyright: ignore[reportMissingImports] - as above

    dataset = reasoning_gym.create_dataset(name, size=size, seed=seed, **msgspec.json.decode(settings))
    if name in _EVALUATED:
        sys.modules[type(dataset).__module__].eval = ast.literal_eval  # type: ignore[attr-defined]
    elif name not in _PARSED and _EVALUATES.search(inspect.getsource(type(dataset).score_answer)) and name != "number_sorting":
        raise ConfigError("its scorer evaluates text as code, and no guard is known for it")
    return dataset


def score_entry(evidence: Evidence, task: Task) -> tuple[float, str]:
    """What the generator's scorer gives the answer; the part between `<answer>` tags if there are some."""
    key = task.key
    dataset = _dataset(key["generator"], key["size"], key["seed"], msgspec.json.encode(key["settings"]))
    entry = unpack(key["entry"])
    tagged = _ANSWER.findall(evidence.answer)
    answer = tagged[-1] if tagged else evidence.answer
    return _score(key["generator"], dataset, entry, answer), f"answer {answer[:200]!r}"


def _score(name: str, dataset: Any, entry: Json, answer: str) -> float:
    guarded = _UNPARSABLE if name in _PARSED and answer.strip() and not is_plain_formula(answer) else answer
    return float(dataset.score_answer(answer=guarded, entry=entry))


def is_plain_formula(text: str) -> bool:
    """True for numbers, names, operators and common functions, without anything that sympy would run or never finish."""
    if len(text) > _MAX_FORMULA_CHARS or not re.fullmatch(r"[A-Za-z0-9\s+\-*/^(),.=]*", text):
        return False
    if re.search(r"\.\s*[A-Za-z]|[A-Za-z)]\s*\.", text) or re.search(r"\d{40}", text):
        return False
    import sympy  # noqa: PLC0415  # pyright: ignore[reportMissingImports] - it comes with the package

    for name in re.findall(r"[A-Za-z][A-Za-z0-9]*", text):
        known = hasattr(sympy, name) or hasattr(builtins, name) or keyword.iskeyword(name)
        if len(name) > 1 and name not in _FUNCTIONS and known:
            return False
    powers = re.sub(r"\s+", "", text).replace("^", "**")
    if re.search(r"\*\*\(?-?[\w.]+\)?\*\*|\*\*\([^)]*\*\*|\)\*\*\(*-?\d{2}", powers):
        return False
    return all(int(number) <= _MAX_EXPONENT for number in re.findall(r"\*\*\(*-?(\d+)", powers))
