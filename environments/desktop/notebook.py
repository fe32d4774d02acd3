"""Jobs in the notebook, a desktop wiki: tick what is done, write a page in its place."""

from random import Random
from typing import Any

from .hands import Hands
from .job import GOODS, HOME, PEOPLE, TOPICS, TOWNS, Family, Job, background

NOTES = f"{HOME}/Notes"
_HEAD = "Content-Type: text/x-zim-wiki\nWiki-Format: zim 0.6\n\n"


def _notebook(rng: Random) -> dict[str, str | bytes]:
    files: dict[str, str | bytes] = dict(background(rng))
    files[f"{NOTES}/notebook.zim"] = "[Notebook]\nversion=0.4\nname=Notes\nhome=Home\nendofline=unix\n"
    files[f"{NOTES}/Home.txt"] = _page("Home", ["Everything begins here.", f"Ask {rng.choice(PEOPLE)} for the key."])
    return files


def _page(title: str, lines: list[str]) -> str:
    return _HEAD + f"====== {title} ======\n" + "".join(f"{line}\n" for line in lines)


# -- tick what is done -------------------------------------------------------------------------------------------------


def make_tick(rng: Random, level: int) -> Job:
    town, other = rng.sample(TOWNS, 2)
    goods = rng.sample(GOODS, 4 + level)
    lines = [f"[ ] order {good}" for good in goods]
    chosen = sorted(rng.sample(range(len(goods)), level + 1))
    done = [line.replace("[ ]", "[*]") if number in chosen else line for number, line in enumerate(lines)]
    path = f"{NOTES}/Sites/{town}.txt"
    files = _notebook(rng) | {path: _page(town, lines), f"{NOTES}/Sites/{other}.txt": _page(other, lines)}
    files[f"{NOTES}/Sites.txt"] = _page("Sites", ["One page for each site."])
    named = ", ".join(goods[number] for number in chosen)
    return Job(
        prompt=f"In the notebook {NOTES}, tick what has been ordered for the site {town} (page Sites:{town}): {named}.",
        files=files,
        wants=[{"kind": "page", "path": path, "lines": done}],
        plan={"page": f"Sites:{town}", "title": town, "rows": [number + 1 for number in chosen]},
    )


async def _jump(hands: Hands, page: str) -> None:
    await hands.open("notebook", NOTES, "Notes")
    await hands.press("ctrl+j")
    await hands.wait("Jump to")
    await hands.fill(page)
    await hands.press("Return")
    await hands.wait(f"{page} - Notes")


async def play_tick(hands: Hands, plan: dict[str, Any]) -> None:
    await _jump(hands, plan["page"])
    for row in plan["rows"]:
        await hands.press("ctrl+Home")
        await hands.do("press", keys="Down", count=row)
        await hands.press("F12")
    await hands.press("ctrl+s")


# -- write a page ------------------------------------------------------------------------------------------------------


def make_page(rng: Random, level: int) -> Job:
    topic, person = rng.choice(TOPICS).title(), rng.choice(PEOPLE)
    name = f"{rng.choice(('Spring', 'Summer', 'Autumn'))}{rng.randrange(2027, 2030)}"
    budget, place = rng.randrange(2, 90) * 100, rng.choice(TOWNS)
    lines = [f"Owner: {person}", f"Budget: {budget} EUR", f"Place: {place}", "State: planned"][: level + 1]
    files = _notebook(rng)
    files[f"{NOTES}/{topic}.txt"] = _page(topic, ["Pages below this one are plans."])
    files[f"{NOTES}/Old/{name}.txt"] = _page(name, ["This was never done."])
    path = f"{NOTES}/{topic}/{name}.txt"
    listed = "; ".join(f"'{line}'" for line in lines)
    return Job(
        prompt=f"In the notebook {NOTES}, make a page {name} below the page {topic} (so {topic}:{name}) with these lines, in this"
        f" order: {listed}.",
        files=files,
        wants=[{"kind": "page", "path": path, "lines": lines}],
        plan={"page": f"{topic}:{name}", "lines": lines},
    )


async def play_page(hands: Hands, plan: dict[str, Any]) -> None:
    await _jump(hands, plan["page"])
    await hands.press("ctrl+End")
    await hands.type("\n".join(plan["lines"]) + "\n")
    await hands.press("ctrl+s")


FAMILIES = {
    "tick-list": Family(make_tick, play_tick),
    "write-page": Family(make_page, play_page),
}
