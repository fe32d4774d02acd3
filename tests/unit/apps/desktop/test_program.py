"""The programs inside, spoken to over a scripted process."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from sandlot.apps.desktop import program as program_module
from sandlot.apps.desktop.program import InsideProgram
from sandlot.apps.desktop.screen import DesktopScreen
from sandlot.apps.desktop.tools import desktop_tools
from sandlot.core.errors import SandboxError, ToolError
from sandlot.core.trace import ToolCall, ToolResult


class Scripted:
    """A process that answers each request with what a function makes of it; None ends it, "" says nothing."""

    dropped = 0

    def __init__(self, answer: Callable[[dict[str, Any]], Any]) -> None:
        self._answer = answer
        self._sender, self._receiver = anyio.create_memory_object_stream[tuple[str, bytes]](100)
        self.killed = False

    async def send(self, data: bytes) -> None:
        for line in data.splitlines():
            found = self._answer(json.loads(line))
            if found is None:
                self._sender.close()
            elif found != "":
                text = found if isinstance(found, str) else json.dumps(found)
                await self._sender.send(("stdout", text.encode() + b"\n"))

    async def output(self) -> AsyncIterator[tuple[str, bytes]]:
        async with self._receiver:
            async for piece in self._receiver:
                yield piece

    async def wait(self) -> int:
        return 3

    async def kill(self) -> None:
        self.killed = True
        self._sender.close()


async def read_during(program: InsideProgram, act: Callable[[], Any]) -> Any:
    """What `act` gives, or its error as it is, not in a group."""
    error: Exception | None = None
    found = None
    async with anyio.create_task_group() as group:
        group.start_soon(program.read)
        try:
            found = await act()
        except Exception as raised:  # noqa: BLE001 - raised again
            error = raised
        await program.close()
    if error is not None:
        raise error
    return found


async def ask(answer: Callable[[dict[str, Any]], Any], **more: Any) -> Any:
    process = Scripted(answer)
    program = InsideProgram("the screen", process)
    try:
        return await read_during(program, lambda: program.call("look", most_s=more.pop("most_s", 5.0), **more))
    finally:
        assert process.killed


async def test_a_request_gets_its_answer():
    assert await ask(lambda request: {"id": request["id"], "result": {"x": request["x"]}}, x=4) == {"x": 4}


async def test_a_refusal_is_the_agents_error_of_limited_length():
    with pytest.raises(ToolError, match="no such key") as refused:
        await ask(lambda request: {"id": request["id"], "error": "no such key " + "x" * 9_000})
    assert len(str(refused.value)) <= 1_000


async def test_a_silent_program_runs_into_the_limit():
    with pytest.raises(TimeoutError):
        await ask(lambda _request: "", most_s=0.05)


@pytest.mark.parametrize("answer", [None, "not json", "[1]", '"text"', "{" * 100])
async def test_a_program_that_ends_or_talks_nonsense_has_ended(answer: str | None):
    with pytest.raises((SandboxError, TimeoutError), match=r"the screen|^$"):
        await ask(lambda _request: answer, most_s=1.0)


async def test_a_forged_answer_without_a_result_is_an_error_for_the_agent():
    with pytest.raises(ToolError, match="cannot be read"):
        await ask(lambda request: {"id": request["id"], "result": [1]})


class Flooding(Scripted):
    """Answers, and then sends a line again and again."""

    def __init__(self, answer: Callable[[dict[str, Any]], Any], line: bytes) -> None:
        super().__init__(answer)
        self._line = line

    async def output(self) -> AsyncIterator[tuple[str, bytes]]:
        async for piece in super().output():
            yield piece
            while not self.killed:
                await anyio.lowlevel.checkpoint()
                yield "stdout", self._line


@pytest.mark.parametrize("answer", [lambda request: {"id": request["id"], "result": {}}, lambda _request: {"id": 0}])
async def test_a_program_that_sends_what_nobody_asked_for_is_ended_and_killed(
    answer: Callable[[dict[str, Any]], Any], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(program_module, "_MAX_LINE_BYTES", 2_000)
    process = Flooding(answer, b'{"id": 0}\n')
    program = InsideProgram("the screen", process)

    async def flooded() -> None:
        try:
            await program.call("look", most_s=5.0)
        except SandboxError:
            return
        with anyio.fail_after(5):
            while not process.killed:  # noqa: ASYNC110 - by the program itself
                await anyio.sleep(0.01)
        await program.call("look", most_s=5.0)

    error: SandboxError | None = None
    try:
        await read_during(program, flooded)
    except SandboxError as raised:
        error = raised
    assert process.killed
    assert "nobody asked for" in program.over
    assert error is None or "nobody asked for" in str(error)


async def test_many_large_answers_that_were_asked_for_are_no_flood(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(program_module, "_MAX_LINE_BYTES", 2_000)
    program = InsideProgram("the screen", Scripted(lambda request: {"id": request["id"], "result": {"x": "y" * 1_900}}))

    async def ask_often() -> int:
        return sum([len((await program.call("look", most_s=5.0))["x"]) for _ in range(5)])

    assert await read_during(program, ask_often) == 5 * 1_900


# -- the screen on such a program --------------------------------------------------------------------------------------


async def with_screen(answer: Callable[[dict[str, Any]], Any], act: Callable[[DesktopScreen], Any]) -> Any:
    program = InsideProgram("the screen", Scripted(answer))

    async def start_reader(_first: int) -> InsideProgram:
        return program

    screen = DesktopScreen(program, start_reader, (1024, 768), {"editor": ("mousepad",)})
    return await read_during(program, lambda: act(screen))


WINDOW = {"id": 7, "title": "a\nb\x1b", "pid": 3, "box": [1, 2, 30, 40], "active": True, "hidden": False}


async def test_windows_are_listed_with_titles_on_one_line():
    shown = await with_screen(
        lambda request: {"id": request["id"], "result": {"windows": [WINDOW]}}, lambda screen: screen.describe()
    )
    assert shown.splitlines() == ["Windows, front first:", shown.splitlines()[1]]
    assert '"a b' in shown
    assert "\x1b" not in shown


HOSTILE = [[WINDOW | {"pid": float("inf")}], [WINDOW | {"box": [float("nan")] * 4}], [WINDOW] * 61, {"a": WINDOW}]


@pytest.mark.parametrize("windows", [None, [1], [{"id": 7}], [WINDOW | {"box": [1]}], [WINDOW | {"pid": "x"}], *HOSTILE])
async def test_a_forged_list_of_windows_is_an_error_for_the_agent(windows: Any):
    with pytest.raises(ToolError, match="cannot be read"):
        await with_screen(lambda request: {"id": request["id"], "result": {"windows": windows}}, lambda screen: screen.windows())


@pytest.mark.parametrize("png", [None, 5, "***", "AAA"])
async def test_a_forged_screenshot_is_an_error_for_the_agent(png: Any):
    with pytest.raises(ToolError, match="cannot be read"):
        await with_screen(lambda request: {"id": request["id"], "result": {"png": png}}, lambda screen: screen.shot())


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ((None, None, None), "say where"),
        (("e1", 4, 5), "say where"),
        ((None, 5000, 5), "not on the screen"),
        ((None, -1, 5), "not on the screen"),
        ((None, 5, None), "say where"),
        (("button", None, None), "is not an element"),
        (("e" + "9" * 50, None, None), "is not an element"),
    ],
)
async def test_a_click_needs_one_place_on_the_screen(where: Any, reason: str):
    with pytest.raises(ToolError, match=reason):
        await with_screen(lambda request: {"id": request["id"], "result": {}}, lambda screen: screen.place(*where))


@pytest.mark.parametrize(
    ("found", "reason"),
    [
        ({"gone": True}, "is gone"),
        ({"box": [0, 0, 10, 10], "pid": 1, "showing": False}, "not on the screen now"),
        ({"box": [5000, 0, 10, 10], "pid": 1, "showing": True}, "outside the screen"),
        ({"box": "x", "pid": 1, "showing": True}, "has no place"),
        ({"box": [float("inf"), 0, 10, 10], "pid": 1, "showing": True}, "has no place"),
        ({"box": [0, 0, 10, 10], "pid": 1, "showing": True}, "covered by"),
    ],
)
async def test_an_element_that_cannot_be_clicked_says_why(found: Any, reason: str):
    def answer(request: dict[str, Any]) -> Any:
        return {"id": request["id"], "result": found if request["do"] == "where" else {"pid": 2, "title": "Other"}}

    with pytest.raises(ToolError, match=reason):
        await with_screen(answer, lambda screen: screen.place("e1", None, None))


async def test_an_application_that_is_not_offered_cannot_be_started():
    with pytest.raises(ToolError, match="there are: editor"):
        await with_screen(lambda request: {"id": request["id"], "result": {}}, lambda screen: screen.open("bash", None))
    with pytest.raises(ToolError, match="not a whole path"):
        await with_screen(lambda request: {"id": request["id"], "result": {}}, lambda screen: screen.open("editor", "--help"))


async def test_a_path_with_a_nul_character_is_refused():
    with pytest.raises(ToolError, match="NUL"):
        await with_screen(lambda request: {"id": request["id"], "result": {}}, lambda screen: screen.open("editor", "/a\0b"))


async def test_windows_have_numbers_of_their_own_however_many_there_were():
    seen = iter(range(100))

    def answer(request: dict[str, Any]) -> Any:
        first = 60 * next(seen)
        windows = [WINDOW | {"id": 1}, *(WINDOW | {"id": 100 + first + number} for number in range(59))]
        return {"id": request["id"], "result": {"windows": windows}}

    async def look(screen: DesktopScreen) -> tuple[set[int], set[int], int]:
        found = [window for _ in range(100) for window in await screen.windows()]
        known = len(screen._numbers)
        return {window.number for window in found if window.x_id == 1}, {window.number for window in found}, known

    same, numbers, known = await with_screen(answer, look)
    assert same == {1}
    assert len(numbers) == 100 * 59 + 1
    assert known == 5_000


NODE = {"depth": 0, "number": 1, "role": "frame", "name": "A", "states": []}


def nested(depth: int) -> Any:
    found: Any = []
    for _ in range(depth):
        found = [found]
    return found


@pytest.mark.parametrize("notes", [5, "text", {"a": 1}, [5, nested(50)], None])
async def test_forged_notes_of_a_tree_are_left_out(notes: Any):
    answer = {"nodes": [NODE], "notes": notes}
    shown = await with_screen(
        lambda request: {"id": request["id"], "result": answer}, lambda screen: screen.tree("all", None, "")
    )
    assert shown == '- frame "A" [e1]'


async def called(answer: Callable[[dict[str, Any]], Any], name: str, **arguments: Any) -> ToolResult:
    """What the agent gets from a tool of a desktop that answers so."""
    world: Any = None

    async def use(screen: DesktopScreen) -> ToolResult:
        tools = {tool.spec.name: tool for tool in desktop_tools(screen, screenshots=False)}
        return await tools[name].call(world, ToolCall(id="c", name=name, arguments=arguments))

    return await with_screen(answer, use)


@pytest.mark.parametrize(
    "result",
    [
        f'{{"nodes": [{{"depth": 0, "number": 1, "role": "frame", "name": "A", "states": [{"[" * 700 + "]" * 700}]}}]}}',
        '{"nodes": [{"depth": 1e999, "number": 1, "role": "frame", "name": "A", "states": []}]}',
        f'{{"nodes": [{{"depth": 0, "number": 1{"0" * 4_000}, "role": "frame", "name": "A", "states": []}}]}}',
    ],
)
async def test_a_hostile_answer_is_an_error_for_the_agent_and_no_failure_of_the_environment(
    result: str,
):
    found = await called(lambda request: f'{{"id": {request["id"]}, "result": {result}}}', "desktop_tree", window="all")
    assert found.error
    assert "cannot be read" in found.text


@pytest.mark.parametrize("error", [OverflowError, KeyError, TypeError, ValueError, RecursionError, AttributeError])
async def test_whatever_breaks_on_an_answer_is_an_error_for_the_agent(error: type[Exception], monkeypatch: pytest.MonkeyPatch):
    async def broken(_screen: DesktopScreen) -> str:
        raise error

    monkeypatch.setattr(DesktopScreen, "describe", broken)
    found = await called(lambda request: {"id": request["id"], "result": {}}, "desktop_windows")
    assert (found.error, found.text) == (True, "the desktop gave an answer that cannot be read")


async def test_a_desktop_that_has_ended_is_an_error_for_the_agent():
    with pytest.raises(ToolError, match="has ended"):
        await with_screen(lambda _request: None, lambda screen: screen.windows())


@pytest.mark.parametrize(
    ("act", "asked"),
    [
        (lambda screen: screen.move((4, 5)), ("move", {"x": 4, "y": 5})),
        (lambda screen: screen.click((4, 5), "left", 2, []), ("click", {"x": 4, "y": 5, "button": 1, "count": 2, "held": []})),
        (lambda screen: screen.scroll((4, 5), "down", 3), ("click", {"x": 4, "y": 5, "button": 5, "count": 3, "held": []})),
        (lambda screen: screen.drag((4, 5), (6, 7)), ("drag", {"x": 4, "y": 5, "to_x": 6, "to_y": 7})),
    ],
)
async def test_the_pointer_goes_where_it_is_sent(act: Callable[[DesktopScreen], Any], asked: tuple[str, dict[str, Any]]):
    requests: list[dict[str, Any]] = []

    def answer(request: dict[str, Any]) -> Any:
        requests.append(request)
        return {"id": request["id"], "result": {}}

    await with_screen(answer, act)
    assert [(request["do"], {name: request[name] for name in asked[1]}) for request in requests] == [asked]
