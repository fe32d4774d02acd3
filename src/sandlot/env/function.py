"""The smallest form of an environment: one generator function.

    @environment("arithmetic", tasks=64)
    def add(rng: Random):
        a, b = rng.randrange(100), rng.randrange(100)
        answer = yield Ask(f"What is {a}+{b}?", golden=str(a + b))
        yield Score(answer.strip() == str(a + b))

A function may ask several times, and yield a `Score` after each answer or all of them at the end: points add up. A second
`Score` of the same name is called `score-2`.

Each task is a seed. During the rollout, the function runs to its next `Ask`. Grading runs it again from the seed with the stored
answers and collects its `Score`s, so grading and re-grading are the same. If it then asks something else, it is not deterministic
and grading fails.
"""

import inspect
import math
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, cast

from sandlot.core.concurrency.author import location_of, name_of
from sandlot.core.concurrency.threads import off_loop
from sandlot.core.errors import AuthorError, ConfigError, GradeError, SandlotError, boundary
from sandlot.core.limits import Limits
from sandlot.core.ports.grading import Evidence, Judge
from sandlot.core.ports.session import UserTurn
from sandlot.core.rubric import CheckResult, RubricScore
from sandlot.core.task import Task
from sandlot.core.types import End, Role
from sandlot.env.environment import Environment
from sandlot.env.session import world_seed
from sandlot.grade.score import verdict_of
from sandlot.model.policy.solution import Agent


@dataclass(frozen=True, slots=True)
class Ask:
    """A question to the agent, yielded by a function marked with `@environment`. The `yield` returns the answer as text.

    ```python
    from sandlot import Ask

    question = Ask("What is 2+2?", golden="4")
    assert question.golden == "4"
    ```
    """

    prompt: str
    """The question."""
    golden: str | None = None
    """The right answer; `--model scripted:golden` gives it. Without it there is no golden solution."""

    def __post_init__(self) -> None:
        for name in ("prompt", "golden"):
            value = getattr(self, name)
            if not isinstance(value, str) and (name == "prompt" or value is not None):
                raise TypeError(f"Ask({name}={value!r}): a {type(value).__name__} is not text; write `{name}=str(...)`")


@dataclass(frozen=True, slots=True)
class Score:
    """A grade for the answer, yielded by a function marked with `@environment`.

    Several scores become several checks. The reward is the points earned divided by the points possible.

    ```python
    from sandlot import Score

    assert Score(0.5, why="one of two words", points=2).points == 2
    ```
    """

    value: bool | float
    """True, False or a number from 0 to 1; anything else fails the grading."""
    why: str = ""
    """The reason, shown beside the score."""
    name: str = "score"
    """The name of the check."""
    points: float = 1.0
    """What the check is worth."""


Script = Generator[Ask | Score, str, None]

_TRIES = 10
"""Seeds tried per distinct task."""


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

    - `name`: the environment's name; task ids are `NAME-0`, `NAME-1`, ...
    - `tasks`: the number of tasks. Each task is a seed for the function's `rng`.
    - `system`: the system prompt.
    - `seed`: another seed makes other tasks.
    - `limits`: budgets and deadlines.
    - `tools`: functions the agent may call; they take `world` first, as with `@env.tool`.
    - `distinct`: skip seeds whose first question an earlier task asks, so that held-out questions are not trained on.

    The function must depend on nothing but `rng`: grading runs it again from the seed with the stored answers, and fails if it
    asks something else. `ConfigError` if the function does not yield, or an argument is wrong.

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
        raise ConfigError(f"environment `{name}`: tasks={tasks!r}; give a positive whole number")
    if callable(tools):
        fix = f"`tools=[{name_of(tools).rpartition('.')[2]}]`"
        raise ConfigError(f"environment `{name}`: tools is one function; give a list, {fix}")

    def make(function: Callable[[Random], Script]) -> Environment:
        if not inspect.isgeneratorfunction(function):
            raise ConfigError(f"{location_of(function)}: `{function.__name__}` must `yield Ask(...)` and then `yield Score(...)`")
        env = Environment(name, description=(function.__doc__ or "").strip(), system=system, seed=seed, limits=limits)
        _add_dialogue(env, function, tasks, distinct=distinct)
        for tool in tools:
            env.tool(tool)
        return env

    return make


def _add_dialogue(env: Environment, function: Callable[[Random], Script], tasks: int, *, distinct: bool) -> None:
    env.source = Path(function.__code__.co_filename)
    dialogue = Dialogue(env, function)
    seeds = [Task(f"{env.name}-{number}") for number in range(tasks * (_TRIES if distinct else 1))]
    env.marked.tasks = lambda _: dialogue.distinct(seeds, tasks) if distinct else iter(seeds)
    env.marked.user = lambda _, task: _LiveDialogue(dialogue, task)
    env.marked.grade = dialogue.grade
    env.marked.solution = dialogue.solve


class Dialogue:
    """The author's generator function, run for a rollout, for the golden solution, or for grading."""

    def __init__(self, env: Environment, function: Callable[[Random], Script]) -> None:
        self.env = env
        self.function = function

    def start(self, task: Task) -> Script:
        """Start the function from the task's seed."""
        script: Any = self.function(Random(world_seed(self.env, task)))  # noqa: S311 - seeded, not secret
        if not isinstance(script, Generator):
            raise TypeError(
                f"{location_of(self.function)}: `{self.function.__name__}` must `yield Ask(...)` and then `yield Score(...)`"
            )
        return cast("Script", script)

    def distinct(self, tasks: Iterable[Task], count: int) -> Iterator[Task]:
        """The first `count` tasks whose first questions differ."""
        asked: set[str] = set()
        for task in tasks:
            if len(asked) == count:
                return
            prompt = self._first_prompt(task) or task.id
            if prompt not in asked:
                asked.add(prompt)
                yield task
        if len(asked) < count:
            there = f"{_TRIES * count} seeds give {len(asked)} different first questions, and {count} tasks are asked for"
            raise ConfigError(f"{location_of(self.function)}: {there}; make more questions possible, or set fewer `tasks`")

    def _first_prompt(self, task: Task) -> str | None:
        """The first question of a task; None if the function raises, which its rollouts will report."""
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
        """Run it in a worker thread: without an answer to the first yield, with one to the next `Ask` or the end."""
        step = _next if answer is None else _next_ask
        return await off_loop(name_of(self.function), lambda: step(script, answer))

    async def solve(self, agent: Agent, task: Task) -> None:
        """Answer every `Ask` with its golden answer."""
        script = self.start(task)
        asked = await self.advance(script, None)
        while isinstance(asked, Ask):
            if asked.golden is None:
                raise AuthorError(
                    f"{location_of(self.function)}: `Ask({asked.prompt[:60]!r})` has no `golden`; give it the right answer"
                )
            await agent.say(asked.golden)
            asked = await self.advance(script, asked.golden)

    async def grade(self, evidence: Evidence, task: Task, judge: Judge | None) -> RubricScore:  # noqa: ARG002 - the mark's shape
        """Run the function again from the seed with the stored answers, and collect its scores."""
        asked = [node.message.text for node in evidence.trace.path() if node.message.role is Role.USER]
        answers = [
            node.message.text for node in evidence.trace.path() if node.message.role is Role.ASSISTANT and not node.message.calls
        ]
        return await off_loop(name_of(self.function), lambda: self._replay(task, asked, answers))

    def _replay(self, task: Task, asked: list[str], answers: list[str]) -> RubricScore:
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
            # An agent that was stopped before it answered is graded with an empty answer.
            item = _next(script, answers[place] if place < len(answers) else "")
            place += 1
        return _graded(scores, location_of(self.function))


def dialogue_of(env: Environment) -> Dialogue | None:
    """The `Dialogue` of an environment that is one function; None for any other. Its tasks do not hold its questions."""
    dialogue = getattr(env.marked.grade, "__self__", None)
    return dialogue if isinstance(dialogue, Dialogue) else None


class _LiveDialogue:
    """The `User` of a rollout: runs the function to the first `Ask`, then from answer to answer."""

    def __init__(self, dialogue: Dialogue, task: Task) -> None:
        self._dialogue = dialogue
        self._task = task
        self._script: Script | None = None

    async def open(self) -> UserTurn:
        """Run to the first `Ask`. An exception here is the environment's failure."""
        self._script = self._dialogue.start(self._task)
        first = await self._dialogue.advance(self._script, None)
        if not isinstance(first, Ask):
            raise TypeError(f"{location_of(self._dialogue.function)}: the first `yield` must be an `Ask`; it yielded {first!r}")
        return UserTurn(text=first.prompt)

    async def reply(self, text: str) -> UserTurn:
        """Run to the next `Ask` or the end. An exception after the first answer is the grader's failure."""
        assert self._script is not None
        with boundary(GradeError, name_of(self._dialogue.function)):
            following = await self._dialogue.advance(self._script, text)
        return UserTurn(text=following.prompt) if isinstance(following, Ask) else UserTurn(end=End.DONE)


def _next(script: Script, answer: str | None) -> Ask | Score | None:
    """What the function yields next; None if it returned."""
    try:
        item: Any = next(script) if answer is None else script.send(answer)
    except StopIteration:
        return None
    if not isinstance(item, Ask | Score):
        raise TypeError(f"yielded {type(item).__name__} {item!r}; yield `Ask(prompt)` or `Score(value)`")
    return item


def _next_ask(script: Script, answer: str | None) -> Ask | None:
    """The next question, skipping `Score`s; None if there is none."""
    item = _next(script, answer)
    while isinstance(item, Score):
        item = _next(script, None)
    return item


def _graded(scores: list[Score], place: str) -> RubricScore:
    if not scores:
        raise GradeError(f"{place}: the function ended without `yield Score(...)`", kind="no_score")
    results: list[CheckResult] = []
    names: Counter[str] = Counter()
    for score in scores:
        names[score.name] += 1
        number = names[score.name]
        value = float(score.value) if type(score.value) in {bool, int, float} else math.nan
        if not 0.0 <= value <= 1.0:
            raise GradeError(f"{place}: Score({score.value!r}); give True, False or a number from 0 to 1", kind="bad_value")
        results.append(
            CheckResult(
                id=score.name if number == 1 else f"{score.name}-{number}",
                verdict=verdict_of(value),
                value=value,
                points=value * score.points,
                worth=score.points,
                evidence=score.why,
            )
        )
    points = sum(result.points for result in results)
    possible = sum(max(result.worth, 0.0) for result in results)
    if possible <= 0:
        raise GradeError(f"{place}: no `Score` has positive points; give one `points` above 0", kind="bad_value")
    return RubricScore(points=points, possible=possible, value=min(max(points / possible, 0.0), 1.0), checks=tuple(results))
