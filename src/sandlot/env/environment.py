"""The environment an author writes: image, tools, tasks, checks and limits.

The decorators only register functions, unchanged. Nothing runs until a rollout opens a task.
"""

import difflib
import inspect
import math
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never, overload

from sandlot.core.concurrency.author import location_of, name_of
from sandlot.core.crashes import OnCrash, require_on_crash
from sandlot.core.errors import ConfigError
from sandlot.core.limits import LONGEST_WAIT_S, Hold, PlannedCall
from sandlot.core.ports.session import Session
from sandlot.core.ports.world import ToolSource
from sandlot.core.rubric import PythonCheck
from sandlot.core.task import Task
from sandlot.core.types import Json
from sandlot.env.declaration import Declaration, F, require_async, require_sequence
from sandlot.env.session import open_session
from sandlot.env.taskset import task_named
from sandlot.env.user import Replies
from sandlot.tools.function import FunctionTool
from sandlot.tools.mcp import McpServer

_MARKS = (
    "tasks",
    "base",
    "setup",
    "finish",
    "tool",
    "check",
    "solution",
    "adversary",
    "control",
    "user",
    "persona",
    "colleagues",
    "mcp",
    "use",
    "hold",
    "round",
)


class Environment(Declaration):
    """An environment in one file: give its settings here, register its functions with the decorators.

    - `name`: up to 64 letters, digits, `.`, `_` or `-`.
    - `description`: one line for `sandlot list` and `sandlot show`.
    - `system`: the system prompt.
    - `image`: the image of the sandbox, such as `host`. With None there is no sandbox: files live in memory, which is fast.
      With an image the agent also gets the tool `bash`, unless `tools` is given.
    - `network`: what the sandbox may reach: `none`.
    - `seed`: another seed makes other tasks and worlds.
    - `limits`: budgets and deadlines of a rollout.
    - `constraints`: rules about tool calls.
    - `state`: a class or function that makes the fresh `world.state` of each rollout.
    - `tools`: functions the agent may call, `"bash"` and `"terminal"` (a terminal that stays open between calls), besides those
      marked with `@env.tool`. `tools=[]` removes `bash`.
    - `apps`: ready parts of the world with tools of their own, such as `MAIL` from `sandlot.apps`.
    - `concurrent`: False runs the tool calls of one turn one after the other.
    - `images`: for an environment that shows images, what a model gets that takes text only: `require` refuses it before the
      first rollout, `describe` gives it a line of text for each image, `drop` leaves the images out. Default: it shows none.
    - `seats`: the agents that act in one world, as `Seat`s or names, if there are several.
    - `order`: how seats act: `in turn`, or `at once`, where nobody sees what the others do in the same round.
    - `shared`: a folder of the sandbox that all seats may read and write, such as `/work`. Each also has `/home/SEAT` for itself.
    - `on_crash`: what happens when a tool raises something else than `ToolError`. `grade`: the agent gets an error, and what is
      there is graded. For worlds whose state cannot be trusted then: `lose` ends the rollout without a point; with `fail` it has
      failed and has no reward, so an agent that can make a tool crash can escape a bad grade.

    The decorators only register a function; nothing runs until a rollout starts. All of them take plain or `async` functions,
    except `solution`, `adversary` and `control`, which must be `async`. One file holds one environment.

    `ConfigError` says which setting is wrong and how to fix it.

    ```python
    from random import Random

    import sandlot
    from sandlot import Agent, Environment, Evidence, Task, World

    env = Environment("till", state=lambda: {"total": 0})


    @env.tasks
    def tasks(rng: Random):
        for number in range(4):
            prices = [rng.randrange(1, 50) for _ in range(3)]
            yield Task(f"sum-{number}", prompt=f"Enter these prices: {prices}", key={"total": sum(prices)})


    @env.tool
    def enter(world: World, price: int) -> str:
        "Enter one price."
        world.state["total"] += price
        return f"total {world.state['total']}"


    @env.check(points=1)
    def total_is_right(evidence: Evidence, task: Task) -> bool:
        return evidence.state["total"] == task.key["total"]


    @env.solution
    async def solve(agent: Agent, task: Task) -> None:
        await agent.call("enter", price=task.key["total"])
        await agent.say("done")


    assert sandlot.run(env, "scripted:golden").summary().pass_rate.value == 1.0
    ```
    """

    def __repr__(self) -> str:
        return f"<Environment {self.name!r} from {self.source or 'this session'}>"

    if not TYPE_CHECKING:  # a type checker must keep reporting unknown attributes

        def __getattr__(self, name: str) -> Never:
            near = difflib.get_close_matches(name, _MARKS, n=1, cutoff=0.5)
            meant = f"did you mean `{near[0]}`?" if near else f"its decorators are {', '.join(_MARKS)}"
            raise AttributeError(f"an environment has no `{name}`; {meant}")

    # -- decorators --------------------------------------------------------------------------------------------------

    def tasks(self, function: F) -> F:
        """Mark the function that makes the tasks: `def make(rng)` yields `Task`s. An environment has one.

        `rng` is a seeded `random.Random`. The same seed must yield the same tasks: do not use the clock or the global `random`.
        """
        self._only_one("tasks", self.marked.tasks, function)
        self.marked.tasks = function
        return self._from(function)

    def base(self, function: F) -> F:
        """Mark the function that fills the apps before any task: `def fill(apps, rng)`. An environment has one.

        It runs once in a process; every world starts from a copy of the result, and the setup adds what its task needs.
        """
        self._only_one("base", self.marked.base, function)
        self.marked.base = function
        return self._from(function)

    def setup(self, function: F) -> F:
        """Mark the function that prepares the world before the agent acts: `def prepare(world, task)`. An environment has one.

        It may write files and run commands; here `world.exec` raises if a command fails. `task.key` is empty.
        """
        self._only_one("setup", self.marked.setup, function)
        self.marked.setup = function
        return self._from(function)

    def finish(self, function: F) -> F:
        """Mark the function that looks at the world when the agent has ended: `def look(world, task)`. An environment has one.

        Programs that the rollout started still run, and are ended after it. Checks see what it puts into `world.state`, for
        example what a service answered. The agent may have changed every program and file there: do not believe an answer that
        the agent could have written. `task.key` is empty. If it raises, the rollout is graded on what is there (`on_crash`).
        """
        self._only_one("finish", self.marked.finish, function)
        self.marked.finish = function
        return self._from(function)

    @overload
    def tool(self, function: F) -> F: ...
    @overload
    def tool(self, *, name: str | None = None, isolate: bool = False, on_crash: OnCrash | None = None) -> Callable[[F], F]: ...
    def tool(
        self, function: F | None = None, *, name: str | None = None, isolate: bool = False, on_crash: OnCrash | None = None
    ) -> F | Callable[[F], F]:
        """Mark a tool: `def look_up(world, name: str) -> str`. Works as `@env.tool` and as `@env.tool(...)`.

        The parameters after `world` need type hints: they become the JSON schema. The docstring becomes the description. The
        agent sees what the function returns. Raise `ToolError` for a request that cannot be done. Any other exception is a defect
        of the environment: the agent gets an error without its text, and the trace the event `tool_crashed`.

        - `name`: the tool's name, if it is not the function's.
        - `isolate`: run it in a child process that is killed at the deadline.
        - `on_crash`: `grade`, `lose` or `fail`, if it is not the environment's.
        """
        if on_crash is not None:
            require_on_crash(on_crash, "@env.tool")

        def mark(marked: F) -> F:
            self.marked.tools.append(FunctionTool.of(marked, name=name, isolate=isolate, on_crash=on_crash))
            return self._from(marked)

        return mark if function is None else mark(function)

    def check(
        self,
        function: None = None,
        *,
        points: float = 1.0,
        id: str | None = None,  # noqa: A002 - the field's name in the rubric
        tags: Sequence[str] = (),
        requires: Sequence[str] = (),
        gate: bool = False,
        isolate: bool = False,
        seat: str = "",
    ) -> Callable[[F], F]:
        """Mark a check: `def is_right(evidence, task) -> bool`. Write `@env.check(points=1)`, with the parentheses.

        It returns True, False, a number from 0 to 1, or a pair of one of these and a reason. It runs on stored evidence after the
        agent has stopped. If it raises, the rollout fails and has no reward. Reading a file that does not exist (`evidence.read`)
        makes the check not met.

        - `points`: what the check is worth; negative points are a penalty.
        - `id`: the check's name, if it is not the function's.
        - `tags`: words to group checks by.
        - `requires`: ids of checks that must be met; if one is not, this check is skipped and earns nothing.
        - `gate`: if this check is not met, the whole score is 0.
        - `isolate`: run it in a child process that is killed at the deadline.
        - `seat`: where several agents act, the seat whose score it counts for; by default it counts for every seat's.
        """
        if function is not None:
            raise ConfigError(f"{location_of(function)}: `@env.check` has no points; write `@env.check(points=1)`")
        name_it = f"@env.check(points={points!r})"
        if type(points) not in {int, float} or not math.isfinite(points):
            raise ConfigError(f"{name_it}: points must be a finite number")
        required = require_sequence(requires, f"{name_it}: requires", '["other_check"]')
        tagged = require_sequence(tags, f"{name_it}: tags", '["style"]')

        def mark(marked: F) -> F:
            name = id or marked.__name__
            ref = f"environment:{name}"
            if ref in self.marked.functions:
                raise ConfigError(f"{location_of(marked)}: there are two checks named `{name}`; rename one, or give it an `id`")
            self.marked.functions[ref] = marked
            self.marked.checks.append(
                PythonCheck(
                    id=name, ref=ref, points=points, tags=tagged, requires=required, gate=gate, isolate=isolate, seat=seat
                )
            )
            return self._from(marked)

        return mark

    def solution(self, function: F) -> F:
        """Mark the golden solution: `async def solve(agent, task)`. It calls the agent's tools and may read `task.key`.

        `--model scripted:golden` runs it. `sandlot audit` and the generated test expect full marks from it.
        """
        self._only_one("solution", self.marked.solution, function)
        self.marked.solution = require_async(function, "solution")
        return self._from(function)

    def adversary(self, function: F) -> F:
        """Mark an agent that cheats, written like a solution. `sandlot audit` reports a flaw if it earns any reward."""
        self.marked.adversaries[function.__name__] = require_async(function, "adversary")
        return self._from(function)

    def control(self, function: F) -> F:
        """Mark another correct solution, written like the golden one. `sandlot audit` expects full marks from it."""
        self.marked.controls[function.__name__] = require_async(function, "control")
        return self._from(function)

    def user(self, function: F) -> F:
        """Mark a scripted user: `def reply(world, text) -> str | None` answers the agent's messages that call no tool.

        Return None to end the rollout. Without a user, the first message without a tool call ends it. Where several agents act,
        `world.seat` is the one that wrote, and None ends its part.
        """
        self._only_one("user", self.marked.user, function)
        self.marked.user = lambda world, task: Replies(function, world, task)
        return self._from(function)

    def round(self, function: F) -> F:
        """Mark the function that is called when every seat has acted: `def settle(world, number)`. An environment has one.

        It may change the world, tell seats something and end the rollout. `number` counts the rounds from 1.
        """
        self._only_one("round", self.marked.round, function)
        self.marked.round = function
        return self._from(function)

    def persona(self, function: F) -> F:
        """Mark the user that a model plays (`--user MODEL`): `def customer(task) -> Persona`. `task.key` is empty.

        Without `--user`, the function marked with `@env.user` answers: in golden solutions, audits and tests.
        """
        self._only_one("persona", self.marked.persona, function)
        self.marked.persona = function
        return self._from(function)

    def colleagues(self, function: F) -> F:
        """Mark the colleagues whom a model plays (`--user MODEL`): `def team(task) -> list[Colleague]`. `task.key` is empty.

        Each has a `persona`. They answer messages in the environment's apps; the same model plays all of them, each in a
        conversation of its own.
        """
        self._only_one("colleagues", self.marked.colleagues, function)
        self.marked.colleagues = function
        return self._from(function)

    def mcp(self, server: McpServer) -> None:
        """Add the tools of an MCP server. It starts when a rollout's world opens and stops when it closes."""
        self.use(server)

    def use(self, source: ToolSource) -> None:
        """Add a part that has tools and lives as long as a world, such as `sandlot.apps.Browser`."""
        self.marked.sources.append(source)

    def hold(self, *tools: str, wait_s: float = 300.0, safe: str | None = None, arguments: Json | None = None) -> None:
        """Let turns that call one of these tools wait for a person, in a run with `--approve`. An environment has one.

        The person approves the turn, changes its calls or refuses it. If it is refused, or there is no answer in time, the safe
        action is taken. Without `--approve` nothing waits.

        - `tools`: names of tools.
        - `wait_s`: how long a turn waits.
        - `safe`: the tool that is called instead, as the safe action. Without one, the rollout stops.
        - `arguments`: the arguments of that call.
        """
        if self.marked.hold is not None:
            raise ConfigError(f"environment `{self.name}`: a second `env.hold`; name all tools in one")
        if not tools or not all(tools):
            raise ConfigError(f'environment `{self.name}`: `env.hold` names no tool; write `env.hold("transfer")`')
        if not 0 < wait_s <= LONGEST_WAIT_S:
            raise ConfigError(f"environment `{self.name}`: `env.hold` waits {wait_s} s; give up to {LONGEST_WAIT_S:.0f}")
        if arguments and safe is None:
            raise ConfigError(f"environment `{self.name}`: `env.hold` has arguments without a `safe` tool to call with them")
        call = PlannedCall(name=safe, arguments=arguments or {}) if safe is not None else None
        self.marked.hold = Hold(tools=tools, wait_s=wait_s, safe=call)

    # -- use ---------------------------------------------------------------------------------------------------------

    def session(self, task: Task | str) -> AbstractAsyncContextManager[Session]:
        """Open a world for one task, to drive the loop yourself.

        - `task`: a `Task`, or the id of one. `ConfigError` if there is no such task, or the environment needs a sandbox.

        ```python
        import anyio
        import sandlot


        async def look() -> str:
            async with sandlot.load("arithmetic").session("arithmetic-0") as session:
                await session.reset()
                return await session.render()


        assert "user:" in anyio.run(look)
        ```
        """
        return open_session(self, task_named(self, task) if isinstance(task, str) else task)

    def _from(self, function: F) -> F:
        if self.source is None:
            self.source = Path(inspect.unwrap(function).__code__.co_filename)
        return function

    def _only_one(self, what: str, present: object, function: Callable[..., Any]) -> None:
        if present is not None:
            second = f"{location_of(function)}: `{name_of(function)}` is a second `@env.{what}`"
            raise ConfigError(f"{second} of environment `{self.name}`; keep one of them")
