"""A tiny environment for each ready check, for the auditor's panel: eight tasks, a tool that writes files, a golden solution.

A case gives the arguments of the check and what golden leaves: the text of its answer, or files.
"""

import base64
from collections.abc import Callable
from datetime import date, timedelta
from functools import cache
from random import Random
from typing import Any

from builders.checked_evidence import database, png, sha256
from sandlot import Agent, Environment, Evidence, Limits, Task, ToolError, World
from sandlot.checks import LIBRARY, image_hash

Case = tuple[str, dict[str, Any], str | dict[str, bytes]]
"""The prompt, the arguments of the check, and what golden leaves."""

NAMES = ("amber", "basil", "cedar", "delta", "ember", "fjord", "grove", "heath", "inlet", "jetty", "knoll", "larch")


def world_of(name: str, num_tasks: int = 8) -> Environment:
    """The environment of one check."""
    env = Environment(f"uses-{name.replace('_', '-')}", limits=Limits(turns=8), state=dict)
    make = CASES[name]

    @env.tasks
    def tasks(rng: Random):
        for number in range(num_tasks):
            prompt, arguments, left = make(rng, number)
            said = left if isinstance(left, str) else {path: base64.b64encode(data).decode() for path, data in left.items()}
            yield Task(f"case-{number}", prompt=prompt, data={"kept": f"keep {number}"}, key={"args": arguments, "left": said})

    @env.setup
    async def start(world: World, task: Task) -> None:
        world.state = {"tickets": {"7": "open"}}
        await world.write("/data/kept.txt", task.data["kept"])

    @env.tool
    async def write_file(world: World, path: str, data: str) -> str:
        """Write a file from base64."""
        if not path.startswith("/out/") or path.endswith("/") or "\0" in path or "/../" in path or len(path) > 200:
            raise ToolError(f"{path[:40]!r} is not a file below /out")
        try:
            content = base64.b64decode(data, validate=True)
        except ValueError as error:
            raise ToolError(f"`data` is not base64: {error}") from error
        await world.write(path, content)
        return "written"

    @env.check(points=1)
    async def met(evidence: Evidence, task: Task) -> Any:
        return LIBRARY[name](evidence, **task.key["args"])

    @env.solution
    async def solve(agent: Agent, task: Task) -> None:
        left = task.key["left"]
        for path, data in left.items() if isinstance(left, dict) else ():
            await agent.call("write_file", path=path, data=data)
        await agent.say(left if isinstance(left, str) else "The file is written.")

    return env


def text_file(rng: Random, number: int) -> tuple[str, str]:
    return "/out/a.txt", f"{NAMES[number]} {rng.randrange(1000, 9999)}"


def _file(check: Callable[[str, str], dict[str, Any]]) -> Callable[[Random, int], Case]:
    def case(rng: Random, number: int) -> Case:
        path, text = text_file(rng, number)
        return f"Write the code of parcel {number} to {path}.", check(path, text), {path: text.encode()}

    return case


def rows_of(rng: Random) -> list[dict[str, Any]]:
    return [{"id": name, "amount": rng.randrange(100, 99999) / 100} for name in rng.sample(NAMES, 5)]


def csv_of(rows: list[dict[str, Any]]) -> bytes:
    return ("id,amount\n" + "".join(f"{row['id']},{row['amount']}\n" for row in rows)).encode()


def _table(check: Callable[[list[dict[str, Any]]], dict[str, Any]]) -> Callable[[Random, int], Case]:
    def case(rng: Random, number: int) -> Case:
        rows = sorted(rows_of(rng), key=lambda row: row["id"])
        return (
            f"Write the orders of day {number} to /out/t.csv.",
            {"path": "/out/t.csv"} | check(rows),
            {"/out/t.csv": csv_of(rows)},
        )

    return case


def _json(check: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Random, int], Case]:
    def case(rng: Random, number: int) -> Case:
        value = {"total": rng.randrange(1000, 9999), "paid": rng.sample(NAMES, 3)}
        text = f'{{"total": {value["total"]}, "paid": {str(value["paid"]).replace(chr(39), chr(34))}}}'
        return (
            f"Write the report of day {number} to /out/r.json.",
            {"path": "/out/r.json"} | check(value),
            {"/out/r.json": text.encode()},
        )

    return case


small_database = cache(database)


def _sql(check: Callable[[list[list[Any]]], dict[str, Any]]) -> Callable[[Random, int], Case]:
    def case(rng: Random, number: int) -> Case:
        rows = [[name, rng.randrange(1, 500)] for name in sorted(rng.sample(NAMES, 4))]
        values = ", ".join(f"('{name}', {count})" for name, count in rows)
        data = small_database(f"create table goods(name text, stock integer); insert into goods values {values};")
        return f"Make the stock list of day {number} in /out/s.db.", {"path": "/out/s.db"} | check(rows), {"/out/s.db": data}

    return case


def _mail(rng: Random, number: int) -> Case:
    address, amount = f"{rng.choice(NAMES)}{number}@example.com", f"{rng.randrange(1000, 9999) / 100:.2f}"
    text = f"From: desk@example.com\nTo: {address}\nSubject: Refund {number}\n\nWe refunded {amount} EUR.\n"
    wanted = {"path": "/out/m.eml", "to": [address], "subject": f"Refund {number}", "says": [amount]}
    return f"Write the mail about refund {number} to /out/m.eml.", wanted, {"/out/m.eml": text.encode()}


def _mailbox(rng: Random, number: int) -> Case:
    prompt, wanted, left = _mail(rng, number)
    assert isinstance(left, dict)
    return prompt, wanted | {"messages": 1}, {"/out/m.eml": b"From x\n" + left["/out/m.eml"]}


@cache  # the tasks are made anew for every trial
def picture(number: int) -> bytes:
    """Fields of brightness, in a pattern of its own for each number."""
    light = Random(number).choices(range(0, 256, 16), k=72)
    return png(36, 32, lambda x, y: (light[y // 4 * 9 + x // 4],) * 3)


@cache
def hash_of(number: int) -> str:
    return image_hash(picture(number))


def _like(_: Random, number: int) -> Case:
    return (
        f"Draw plan {number} in /out/p.png.",
        {"path": "/out/p.png", "hash": hash_of(number)},
        {"/out/p.png": picture(number)},
    )


@cache
def logo(color: tuple[int, int, int]) -> bytes:
    return png(20, 10, lambda x, _: color if x < 15 else (255, 255, 255))


def _color(rng: Random, number: int) -> Case:
    color = (rng.randrange(256), rng.randrange(256), rng.randrange(256))
    name = "#" + "".join(f"{each:02x}" for each in color)
    return (
        f"Draw the logo of client {number} in /out/p.png.",
        {"path": "/out/p.png", "colors": {name: 0.6}, "distance": 8},
        {"/out/p.png": logo(color)},
    )


@cache
def plain(width: int, height: int) -> bytes:
    return png(width, height, lambda _x, _y: (1, 2, 3))


def _size(rng: Random, number: int) -> Case:
    size = rng.randrange(10, 60), rng.randrange(10, 60)
    return (
        f"Draw plan {number} in /out/p.png.",
        {"path": "/out/p.png", "width": size[0], "height": size[1]},
        {"/out/p.png": plain(*size)},
    )


def _answer(say: Callable[[Random, int], tuple[dict[str, Any], str]]) -> Callable[[Random, int], Case]:
    def case(rng: Random, number: int) -> Case:
        arguments, text = say(rng, number)
        return f"Question {number}: what is the value?", arguments, text

    return case


def _number(rng: Random, _: int) -> tuple[dict[str, Any], str]:
    value = rng.randrange(1001, 99999)
    return {"value": value}, str(value)


def _quantity(rng: Random, number: int) -> tuple[dict[str, Any], str]:
    unit = ("km", "kg", "s", "m/s", "J", "V", "L", "mol")[number]
    text = f"{rng.randrange(101, 9999) / 100} {unit}"
    return {"value": text}, text


def _between(rng: Random, _: int) -> tuple[dict[str, Any], str]:
    value = rng.randrange(1000, 9000)
    return {"low": f"{value - 0.5} m", "high": f"{value + 0.5} m"}, f"{value} m"


def _date(rng: Random, _: int) -> tuple[dict[str, Any], str]:
    day = date(2020, 1, 1) + timedelta(days=rng.randrange(3000))
    return {"value": day.isoformat()}, day.isoformat()


def _moment(rng: Random, _: int) -> tuple[dict[str, Any], str]:
    day = date(2020, 1, 1) + timedelta(days=rng.randrange(3000))
    text = f"{day.isoformat()}T{rng.randrange(24):02}:{rng.randrange(60):02}:00+00:00"
    return {"value": text}, text


def _duration(rng: Random, _: int) -> tuple[dict[str, Any], str]:
    text = f"{rng.randrange(1, 20)} h {rng.randrange(1, 59)} min"
    return {"value": text}, text


def _formula(rng: Random, number: int) -> tuple[dict[str, Any], str]:
    a, b = rng.randrange(2, 90), rng.randrange(2, 90)
    text = (f"{a}/{a * b + 1}", f"{a}x^2+{b}x", f"({a}, {b})", f"{{{a}, {b}, 97}}", f"[{a}, {a + b})", f"{a}\\sqrt{{{b}}}",
            f"x={a * b}", f"\\frac{{{a}\\pi}}{{{b}}}")[number]  # fmt: skip
    return {"value": text}, text


def _choice(rng: Random, _: int) -> tuple[dict[str, Any], str]:
    letter = rng.choice("ABCDEFGHIJKLMNOP")
    return {"choice": letter, "options": "ABCDEFGHIJKLMNOP"}, letter


def _two_words(rng: Random, number: int) -> tuple[dict[str, Any], str]:
    text = f"{NAMES[number]} {rng.choice(NAMES)}"
    return {"text": text}, text


def _facts(rng: Random, number: int) -> tuple[dict[str, Any], str]:
    amount, name = f"{rng.randrange(1000, 9999) / 100:.2f}", NAMES[number]
    others = [each for each in NAMES if each != name]
    return {"facts": [amount, name], "absent": others, "at_most_words": 30}, f"Parcel {name} costs {amount} EUR."


def _quote(rng: Random, number: int) -> tuple[dict[str, Any], str]:
    text = f"The {NAMES[number]} shipment of {rng.randrange(100, 999)} crates leaves harbour {rng.choice(NAMES)} at dawn."
    return {"text": text, "at_least": 0.9}, text


CASES: dict[str, Callable[[Random, int], Case]] = {
    "file_equals": _file(lambda path, text: {"path": path, "text": text}),
    "file_hash": _file(lambda path, text: {"path": path, "sha256": sha256(text.encode())}),
    "tree_equals": _file(lambda _, text: {"folder": "/out", "files": {"a.txt": text}}),
    "table_equals": _table(lambda rows: {"rows": rows, "key": "id", "tolerance": 0.001}),
    "table_share": _table(lambda rows: {"rows": rows}),
    "table_total": _table(
        lambda rows: {"column": "amount", "value": sum(r["amount"] for r in rows), "tolerance": 0.001, "rows": 5}
    ),
    "json_value": _json(lambda value: {"at": "total", "value": value["total"]}),
    "json_equals": _json(lambda value: {"value": value, "unordered": True}),
    "sql_rows": _sql(lambda rows: {"query": "select name, stock from goods", "rows": rows}),
    "sql_value": _sql(
        lambda rows: {"query": "select sum(stock * length(name)) from goods", "value": sum(5 * n for _, n in rows)}
    ),
    "mail_message": _mail,
    "mailbox_message": _mailbox,
    "image_like": _like,
    "image_colors": _color,
    "image_size": _size,
    "answer_equals": _answer(_two_words),
    "answer_number": _answer(_number),
    "number_equals": _answer(_number),
    "quantity_equals": _answer(_quantity),
    "quantity_between": _answer(_between),
    "date_equals": _answer(_date),
    "moment_equals": _answer(_moment),
    "duration_equals": _answer(_duration),
    "math_equals": _answer(_formula),
    "choice_equals": _answer(_choice),
    "text_states": _answer(_facts),
    "text_like": _answer(_quote),
}
