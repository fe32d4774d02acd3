"""Jobs in the file manager: put files where they belong, give them their right names."""

from random import Random
from typing import Any

from .hands import Hands
from .job import DOCUMENTS, PEOPLE, TOWNS, Family, Job, Want, all_of, background, gone, text_is


def _moved(source: str, target: str, text: str) -> Want:
    """One want for each file: a copy is no move."""
    return all_of(text_is(target, text), gone(source))


async def _rename(hands: Hands, old: str, new: str) -> None:
    await hands.click("cell", old)
    await hands.press("F2")
    await hands.wait("Rename File")
    await hands.fill(new)
    await hands.press("Return")
    await hands.wait_closed("Rename File")
    await hands.press("F5")


async def _go(hands: Hands, folder: str) -> None:
    await hands.press("ctrl+l")
    await hands.fill(folder)
    await hands.press("Return")
    await hands.wait(folder.rpartition("/")[2])


# -- move files into a folder ------------------------------------------------------------------------------------------


def make_move(rng: Random, level: int) -> Job:
    year = 2019 + 2 * level + rng.randrange(2)
    files: dict[str, str | bytes] = dict(background(rng))
    names: list[str] = []
    wants: list[Want] = []
    target = f"{DOCUMENTS}/tax/{year}"
    for number, person in enumerate(rng.sample(PEOPLE, 5)):
        for kind, when in (("invoice", year), ("invoice", year + 1), ("offer", year))[: 2 + (level > 1)]:
            if when == year and kind == "invoice" and number >= level + 1:
                continue
            name = f"{kind}-{when}-{person.split()[1].lower()}.txt"
            total = rng.randrange(100, 2000)
            text = f"{kind.title()} {number + 1} of {when}\n{person}, {rng.choice(TOWNS)}\nTotal: {total}.00\n"
            files[f"{DOCUMENTS}/inbox/{name}"] = text
            if when == year and kind == "invoice":
                names.append(name)
                wants.append(_moved(f"{DOCUMENTS}/inbox/{name}", f"{target}/{name}", text))
    if level > 2:
        files[f"{DOCUMENTS}/old/tax/{year}/readme.txt"] = "Closed. Nothing is added here.\n"
    return Job(
        prompt=f"Move all invoices of {year} from Documents/inbox to Documents/tax/{year}. Offers and other years stay.",
        files=files,
        wants=wants,
        plan={"names": sorted(names), "from": f"{DOCUMENTS}/inbox", "to": target},
        folders=(target, f"{DOCUMENTS}/tax/{year + 1}"),
    )


async def play_move(hands: Hands, plan: dict[str, Any]) -> None:
    await hands.open("files", plan["from"], "inbox")
    for number, name in enumerate(plan["names"]):
        ref = await hands.find("cell", name)
        await hands.do("click", element=ref, modifiers=["ctrl"] if number else [])
    await hands.press("ctrl+x")
    await _go(hands, plan["to"])
    await hands.press("ctrl+v")
    for name in plan["names"]:
        await hands.find("cell", name)


# -- give files their names --------------------------------------------------------------------------------------------


def make_rename(rng: Random, level: int) -> Job:
    towns = rng.sample(TOWNS, level + 2)
    folder = f"{DOCUMENTS}/surveys"
    files: dict[str, str | bytes] = dict(background(rng))
    wants: list[Want] = []
    pairs: list[list[str]] = []
    for number, town in enumerate(towns, 1):
        old = f"scan{number:03}.txt"
        new = f"{town.lower()}.txt" if level < 3 else f"{number:02} {town} (final).txt"
        text = f"Survey of {town}\nhouses: {rng.randrange(20, 300)}\n"
        files[f"{folder}/{old}"] = text
        if number <= level + 1:
            pairs.append([old, new])
            wants.append(_moved(f"{folder}/{old}", f"{folder}/{new}", text))
    files[f"{DOCUMENTS}/old/surveys/scan001.txt"] = "Survey of another year\n"
    asked = ", ".join(f"{old} must be called {new}" for old, new in pairs)
    return Job(
        prompt=f"Rename the scans in Documents/surveys: {asked}. The other scan keeps its name.",
        files=files,
        wants=wants,
        plan={"folder": folder, "pairs": pairs},
    )


async def play_rename(hands: Hands, plan: dict[str, Any]) -> None:
    await hands.open("files", plan["folder"], "surveys")
    for old, new in plan["pairs"]:
        await _rename(hands, old, new)
        await hands.find("cell", new)


# -- two files with each other's name ----------------------------------------------------------------------------------


def make_swap(rng: Random, level: int) -> Job:
    first, second = rng.sample(TOWNS, 2)
    names = [f"{first.lower()}.txt", f"{second.lower()}.txt"]
    folder = f"{DOCUMENTS}/plans" if level < 3 else f"{DOCUMENTS}/plans/{rng.randrange(2020, 2026)}"
    texts = [f"Plan of {second}\nsheet {rng.randrange(9)}\n", f"Plan of {first}\nsheet {rng.randrange(10, 19)}\n"]
    files: dict[str, str | bytes] = {**background(rng)}
    files |= {f"{folder}/{name}": text for name, text in zip(names, texts, strict=True)}
    wants = [all_of(text_is(f"{folder}/{names[0]}", texts[1]), text_is(f"{folder}/{names[1]}", texts[0]))]
    extra = ""
    if level > 1:
        files[f"{folder}/{names[0]}.bak"] = texts[1]
        wants.append({**gone(f"{folder}/{names[0]}.bak"), "then": wants[0]})
        extra = f" When that is right, delete {names[0]}.bak, which nobody needs."
    short = folder.removeprefix("/home/ada/")
    return Job(
        prompt=f"In {short}, {names[0]} and {names[1]} have each other's name: the plan of {first} is in {names[1]}, and the"
        f" other way round. Give each its own name, and leave nothing else behind.{extra}",
        files=files,
        wants=wants,
        plan={"folder": folder, "names": names, "delete": f"{names[0]}.bak" if level > 1 else ""},
    )


async def play_swap(hands: Hands, plan: dict[str, Any]) -> None:
    first, second = plan["names"]
    await hands.open("files", plan["folder"], plan["folder"].rpartition("/")[2])
    for old, new in ((first, "between.txt"), (second, first), ("between.txt", second)):
        await _rename(hands, old, new)
        await hands.find("cell", new)
    if plan["delete"]:
        await hands.click("cell", plan["delete"])
        await hands.press("Delete")
        await hands.click("button", "Yes")


FAMILIES = {
    "move-invoices": Family(make_move, play_move),
    "rename-scans": Family(make_rename, play_rename),
    "swap-names": Family(make_swap, play_swap),
}
