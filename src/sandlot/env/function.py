"""The smallest environment: one generator function.

    @environment("arithmetic", tasks=64)
    def add(rng: Random):
        a, b = rng.randrange(100), rng.randrange(100)
        answer = yield Ask(f"What is {a}+{b}?", golden=str(a + b))
        yield Score(answer.strip() == str(a + b))

A function may ask several times, and yield a `Score` after each answer or all of them at the end: points add up. A second
`Score` of the same name is called `score-2`.

Each task is a seed. While the agent plays, the function runs to its next `Ask`; grading restarts it from the seed with the stored
answers and keeps its `Score`s, so grading and re-grading are one function. If a restarted function asks something else than was
asked, the environment is not deterministic and grading is refused.
"""

import inspect
import math
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, cast

from sandlot.core.concurrency.author import name_of
from sandlot.core.concurrency.threads import off_loop
from sandlot.core.errors import AuthorError, ConfigError, GradeError, SandlotError, boundary
from sandlot.core.limits import Limits
from sandlot.core.ports.grading import Evidence, Judge
from sandlot.core.ports.session import UserTurn
from sandlot.core.rubric import CheckResult, CheckVerdict
from sandlot.core.rubric import RubricScore as GradedScore
from sandlot.core.task import Task
from sandlot.core.types import End, Role
from sandlot.env.declaration import location_of
from sandlot.env.environment import Environment
from sandlot.env.session import world_seed
from sandlot.model.policy.solution import Agent


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask the agent; the `yield` returns its answer as text.

    ```python
    from sandlot import Ask

    question = Ask("What is 2+2?", golden="4")
    assert question.golden == "4"
    ```
    """

    prompt: str
    """What the agent is asked next."""
    golden: str | None = None
    """What a perfect agent would answer: `--model scripted:golden` says it."""

    def __post_init__(self) -> None:
        for name in ("prompt", "golden"):
            value = getattr(self, name)
            if not isinstance(value, str) and (name == "prompt" or value is not None):
                raise TypeError(f"Ask({name}={value!r}): a {type(value).__name__} is not text; write `{name}=str(...)`")


@dataclass(frozen=True, slots=True)
class Score:
    """Grade the answer, inside a function marked with `@environment`.

    Several scores become several checks with these names; the reward is the weighted share of their points.

    ```python
    from sandlot import Score

    assert Score(0.5, why="one of two words", points=2).points == 2
    ```
    """

    value: bool | float
    """True, False or a number from 0 to 1."""
    why: str = ""
    """The reason, shown beside the score."""
    name: str = "score"
    """The name of this check."""
    points: float = 1.0
    """What it is worth."""


Script = Generator[Ask | Score, str, None]

_TRIES = 10
"""Seeds that are tried for each distinct task."""


def environment(
    name: str,
    *,
    tasks: int,
    system: str = "",
    seed: int = 0,
    limits: Limits | None = None,
    tools: Sequence[Callable[..., Any]] = (),
    distinct: bool = False,
) -> Callable[[Callable[[Random], Script]], Environment]:
    """Make an environment from one generator function that yields `Ask` and then `Score`.

    - `name`: the environment's name; tasks are called `NAME-0`, `NAME-1`, ...
    - `tasks`: how many tasks there are. Each task is a seed for the function's `rng`.
    - `system`: the system prompt.
    - `seed`: another seed makes other tasks.
    - `limits`: budgets and deadlines.
    - `tools`: functions the agent may call; they take `world` first, as with `@env.tool`.
    - `distinct`: skip seeds whose first question was asked by an earlier task, so that held-out questions are not in training.

    The function must depend on nothing but `rng`: grading runs it again from the seed with the stored answers, and refuses if it
    asks something else.

    ```python
    from random import Random

    import sandlot
    from sandlot import Ask, Score, environment


    @environment("add", tasks=8)
    def add(rng: Random):
        a, b = rng.randrange(100), rng.randrange(100)
        answer = yield Ask(f"What is {a}+{b}?", golden=str(a + b))
        yield Score(answer.strip() == str(a + b))


    run = sandlot.run(add, "scripted:golden")
    assert run.summary().pass_rate.value == 1.0
    ```
    """
    if type(tasks) is not int or tasks < 1:
        raise ConfigError(f"environment `{name}`: tasks={tasks!r}; give a positive number of tasks")

    if callable(tools):
        raise ConfigError(
            f"environment `{name}`: tools is one function; give a list, `tools=[{name_of(tools).rpartition('.')[2]}]`"
        )

    def make(function: Callable[[Random], Script]) -> Environment:
        if not inspect.isgeneratorfunction(function):
            raise ConfigError(f"{location_of(function)}: `{function.__name__}` must `yield Ask(...)` and then `yield Score(...)`")
        env = Environment(name, description=(function.__doc__ or "").strip(), system=system, seed=seed, limits=limits)
        env.source = Path(function.__code__.co_filename)
        dialogue = Dialogue(env, function)
        seeds = [Task(f"{name}-{number}") for number in range(tasks * (_TRIES if distinct else 1))]
        env.marked.tasks = lambda _: dialogue.distinct(seeds, tasks) if distinct else iter(seeds)
        env.marked.user = lambda _, task: _LiveDialogue(dialogue, task)
        env.marked.grade = dialogue.grade
        env.marked.solution = dialogue.solve
        for tool in tools:
            env.tool(tool)
        return env

    return make


class Dialogue:
    """The generator function, played live, by its golden answers, or against stored ones."""

    def __init__(self, env: Environment, function: Callable[[Random], Script]) -> None:
        self.env = env
        self.function = function

    def start(self, task: Task) -> Script:
        """The function from its seed."""
        script: Any = self.function(Random(world_seed(self.env, task)))  # noqa: S311 - seeded, not secret
        if not isinstance(script, Generator):
            raise TypeError(
                f"{location_of(self.function)}: `{self.function.__name__}` must `yield Ask(...)` and then `yield Score(...)`"
            )
        return cast("Script", script)

    def distinct(self, tasks: Iterable[Task], count: int) -> Iterator[Task]:
        """The first `count` that ask something new."""
        asked: set[str] = set()
        for task in tasks:
            if len(asked) == count:
                return
            prompt = self._first_prompt(task) or task.id
            if prompt not in asked:
                asked.add(prompt)
                yield task
        if len(asked) < count:
            there = f"{_TRIES * count} seeds ask {len(asked)} different things, not {count}"
            raise ConfigError(f"{location_of(self.function)}: {there}; draw from more, or ask for fewer tasks")

    def _first_prompt(self, task: Task) -> str | None:
        """What a task asks first; None if its function raises, which is for its rollouts to find out."""
        script = None
        try:
            with boundary(AuthorError, name_of(self.function)):
                script = self.start(task)
                first = next(script, None)
        except SandlotError:
            return None
        finally:
            if script is not None:
                script.close()
        return first.prompt if isinstance(first, Ask) else None

    async def advance(self, script: Script, answer: str | None) -> Ask | Score | None:
        """Run it, off the loop, to its first yield; with an answer, to the next `Ask` or the end. `Score`s are for grading."""
        step = _next if answer is None else _next_ask
        return await off_loop(name_of(self.function), lambda: step(script, answer))

    async def solve(self, agent: Agent, task: Task) -> None:
        """Give the golden answers, one `Ask` after the other."""
        script = self.start(task)
        asked = await self.advance(script, None)
        while isinstance(asked, Ask):
            if asked.golden is None:
                raise AuthorError(
                    f"{location_of(self.function)}: `Ask({asked.prompt[:60]!r})` has no `golden`; give it the right answer"
                )
            await agent.say(asked.golden)
            asked = await self.advance(script, asked.golden)

    async def grade(self, evidence: Evidence, task: Task, judge: Judge | None) -> GradedScore:  # noqa: ARG002 - the mark's shape
        """Restart from the seed, give the stored answers, keep the scores."""
        asked = [node.message.text for node in evidence.trace.path() if node.message.role is Role.USER]
        answers = [
            node.message.text for node in evidence.trace.path() if node.message.role is Role.ASSISTANT and not node.message.calls
        ]
        return await off_loop(name_of(self.function), lambda: self._replay(task, asked, answers))

    def _replay(self, task: Task, asked: list[str], answers: list[str]) -> GradedScore:
        script = self.start(task)
        scores: list[Score] = []
        place = 0
        item = _next(script, None)
        while item is not None:
            if isinstance(item, Score):
                scores.append(item)
                item = _next(script, None)
                continue
            if place < len(asked) and asked[place] != item.prompt:
                raise GradeError(
                    f"{location_of(self.function)}: task `{task.id}` asked {asked[place]!r} during the rollout and asks "
                    f"{item.prompt!r} when graded; use no randomness but `rng`",
                    kind="changed",
                )
            # An agent that was stopped before its answer has left none: that is graded, as the empty answer it is.
            item = _next(script, answers[place] if place < len(answers) else "")
            place += 1
        return _graded(scores, location_of(self.function))


def dialogue_of(env: Environment) -> Dialogue | None:
    """The dialogue of an environment that is one function: what it asks is not in its tasks. None for any other."""
    dialogue = getattr(env.marked.grade, "__self__", None)
    return dialogue if isinstance(dialogue, Dialogue) else None


class _LiveDialogue:
    """One rollout's run of the function: to the first `Ask`, then from answer to answer."""

    def __init__(self, dialogue: Dialogue, task: Task) -> None:
        self._dialogue = dialogue
        self._task = task
        self._script: Script | None = None

    async def open(self) -> UserTurn:
        """Run to the first `Ask`. What raises here is the environment's failure."""
        self._script = self._dialogue.start(self._task)
        first = await self._dialogue.advance(self._script, None)
        if not isinstance(first, Ask):
            raise TypeError(
                f"{location_of(self._dialogue.function)}: the first thing to yield is an `Ask`; this yielded {first!r}"
            )
        return UserTurn(text=first.prompt)

    async def reply(self, text: str) -> UserTurn:
        """Run to the next `Ask`, or to the end. What raises after the first answer is the grader's failure."""
        assert self._script is not None
        with boundary(GradeError, name_of(self._dialogue.function)):
            following = await self._dialogue.advance(self._script, text)
        return UserTurn(text=following.prompt) if isinstance(following, Ask) else UserTurn(end=End.DONE)


def _next(script: Script, answer: str | None) -> Ask | Score | None:
    """The next thing it yields; None when it has returned."""
    try:
        item: Any = next(script) if answer is None else script.send(answer)
    except StopIteration:
        return None
    if not isinstance(item, Ask | Score):
        raise TypeError(f"it yielded {type(item).__name__} {item!r}; yield `Ask(prompt)` or `Score(value)`")
    return item


def _next_ask(script: Script, answer: str | None) -> Ask | None:
    """The next question, past `Score`s between two of them; None when there is no other."""
    item = _next(script, answer)
    while isinstance(item, Score):
        item = _next(script, None)
    return item


def _graded(scores: list[Score], place: str) -> GradedScore:
    if not scores:
        raise GradeError(f"{place}: it ended without a `yield Score(...)`", kind="no_score")
    results: list[CheckResult] = []
    names: Counter[str] = Counter()
    for score in scores:
        names[score.name] += 1
        number = names[score.name]
        value = float(score.value) if type(score.value) in {bool, int, float} else math.nan
        if not 0.0 <= value <= 1.0:
            raise GradeError(f"{place}: Score({score.value!r}) is not True, False or a number from 0 to 1", kind="bad_value")
        verdict = CheckVerdict.MET if value == 1.0 else CheckVerdict.NOT_MET if value == 0.0 else CheckVerdict.PARTLY
        results.append(
            CheckResult(
                id=score.name if number == 1 else f"{score.name}-{number}",
                verdict=verdict,
                value=value,
                points=value * score.points,
                worth=score.points,
                evidence=score.why,
            )
        )
    points = sum(result.points for result in results)
    possible = sum(max(result.worth, 0.0) for result in results)
    if possible <= 0:
        raise GradeError(f"{place}: no `Score` has positive points", kind="bad_value")
    return GradedScore(points=points, possible=possible, value=min(max(points / possible, 0.0), 1.0), checks=tuple(results))
