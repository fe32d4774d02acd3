"""Jobs in the text editor: change values, replace a word, save a copy under another name."""

from random import Random
from typing import Any

from .hands import Hands
from .job import DOCUMENTS, PEOPLE, TOWNS, Family, Job, background, text_is, town_of

# -- change values of a file that exists twice -------------------------------------------------------------------------

_SETTINGS = ("host", "port", "retries", "timeout", "mode", "region", "language", "owner")


def _values(rng: Random) -> dict[str, str]:
    return {
        "host": f"{rng.choice(TOWNS).lower()}.example",
        "port": str(rng.randrange(2000, 9000)),
        "retries": str(rng.randrange(2, 9)),
        "timeout": str(rng.randrange(10, 90)),
        "mode": rng.choice(("fast", "safe", "mixed")),
        "region": rng.choice(("north", "south", "east", "west")),
        "language": rng.choice(("en", "de", "fr", "pt")),
        "owner": rng.choice(PEOPLE),
    }


def _written(values: dict[str, str]) -> str:
    return "# written by hand\n" + "".join(f"{name} = {value}\n" for name, value in values.items())


def make_values(rng: Random, level: int) -> Job:
    first, second = rng.sample(TOWNS, 2)
    values, other = _values(rng), _values(rng)
    names = rng.sample(_SETTINGS, level + 1)
    new = dict(values)
    fresh = _values(rng)
    for name in names:
        while fresh[name] == values[name]:
            fresh = _values(rng)
        new[name] = fresh[name]
    path = f"{DOCUMENTS}/{first}/service.conf"
    files = {**background(rng), path: _written(values), f"{DOCUMENTS}/{second}/service.conf": _written(other)}
    asked = ", ".join(f"{name} to {new[name]}" for name in names)
    order = list(values)
    return Job(
        prompt=f"In the settings of the {first} service (Documents/{first}/service.conf), set {asked}. Leave the rest as it is.",
        files=files,
        wants=[text_is(path, _written(new))],
        plan={
            "path": path,
            "title": "service.conf",
            "lines": [[order.index(name) + 1, f"{name} = {new[name]}"] for name in names],
        },
    )


async def play_values(hands: Hands, plan: dict[str, Any]) -> None:
    await hands.open("editor", plan["path"], plan["title"])
    for number, text in plan["lines"]:
        await hands.press("ctrl+Home")
        await hands.do("press", keys="Down", count=number)
        await hands.press("End", "shift+Home")
        await hands.type(text)
    await hands.press("ctrl+s")


# -- replace a word everywhere, but not inside others ------------------------------------------------------------------

_WORDS = (("Ash", "Ashford"), ("Ward", "Warden"), ("Hill", "Hillside"), ("Lane", "Lanes"))


def make_replace(rng: Random, level: int) -> Job:
    word, longer = rng.choice(_WORDS)
    new = rng.choice(("Beck", "Dale", "Croft"))
    people = rng.sample(PEOPLE, 4)
    lines = [f"Report of {people[0]}", ""]
    for number in range(4 + 3 * level):
        form = rng.randrange(4)
        lines.append(
            (
                f"{number + 1}. {word} was visited by {rng.choice(people)}.",
                f"{number + 1}. The road from {word} to {longer} is closed.",
                f"{number + 1}. {longer} has {rng.randrange(20, 90)} houses.",
                f"{number + 1}. Letters for {word}, {word} Farm and {longer} are sorted by hand.",
            )[form]
        )
    lines += [f"{word.upper()} is written in capitals on the map only.", f"Signed in {word}."]
    text = "\n".join(lines) + "\n"
    done = text.replace(longer, "\0").replace(word, new).replace("\0", longer)
    county = town_of(rng, level)
    path = f"{DOCUMENTS}/{county}/report.txt"
    files = {**background(rng), path: text, f"{DOCUMENTS}/old/{county}/report.txt": text}
    return Job(
        prompt=f"In Documents/{county}/report.txt, the village {word} must be called {new} now, everywhere. {longer} is another"
        f" place and keeps its name, and so does {word.upper()} in capitals. Do not touch the copy in the folder old.",
        files=files,
        wants=[text_is(path, done)],
        plan={"path": path, "old": word, "new": new},
    )


async def play_replace(hands: Hands, plan: dict[str, Any]) -> None:
    await hands.open("editor", plan["path"], "report.txt")
    await hands.press("ctrl+r")
    await hands.wait("Find and Replace")
    await hands.click("text", "", after="Search for:")
    await hands.fill(plan["old"])
    await hands.click("text", "", after="Replace with:")
    await hands.fill(plan["new"])
    for box in ("Match case", "Match whole word", "Replace all in:"):
        await hands.click("check box", box)
    await hands.click("button", "Replace All", after='dialog "Find and Replace"')
    await hands.click("button", "Close", after='dialog "Find and Replace"')
    await hands.press("ctrl+s")


# -- save under another name -------------------------------------------------------------------------------------------


def make_copy(rng: Random, level: int) -> Job:
    person, other = rng.sample(PEOPLE, 2)
    town, year = rng.choice(TOWNS), rng.randrange(2021, 2026)
    days = rng.randrange(2, 9)
    letter = f"Dear {person},\n\nthank you for your visit to {town}.\nWe will send the papers in {days} days.\n\nAda Quist\n"
    path, target = f"{DOCUMENTS}/letters/letter.txt", f"{DOCUMENTS}/sent/{year}/letter.txt"
    lines = letter.split("\n")
    lines[0] = f"Dear {other},"
    files: dict[str, str | bytes] = {**background(rng), path: letter, f"{DOCUMENTS}/sent/{year - 1}/letter.txt": "Dear all,\n"}
    if level > 1:
        files[target] = "Dear customer,\n\nan old letter that is not needed any more.\n"
    if level > 2:
        lines.insert(4, "Please bring the signed form.")
    place = f"Documents/sent/{year}"
    return Job(
        prompt=f"Take Documents/letters/letter.txt, address it to {other} instead of {person}"
        + (", add the line 'Please bring the signed form.' just before the empty line above the signature" if level > 2 else "")
        + f", and save it as letter.txt in {place}"
        + ("; the old letter there is to be replaced" if level > 1 else "")
        + ". The letter in the folder letters must stay as it is.",
        files=files,
        wants=[text_is(target, "\n".join(lines))],
        plan={"path": path, "target": target, "name": other, "exists": level > 1, "extra": level > 2},
        folders=(f"{DOCUMENTS}/sent/{year}",),
    )


async def play_copy(hands: Hands, plan: dict[str, Any]) -> None:
    await hands.open("editor", plan["path"], "letter.txt")
    await hands.press("ctrl+Home", "shift+End")
    await hands.type(f"Dear {plan['name']},")
    if plan["extra"]:
        await hands.do("press", keys="Down", count=3)
        await hands.press("End")
        await hands.type("\nPlease bring the signed form.")
    await hands.press("ctrl+shift+s")
    await hands.wait("Save As")
    await hands.fill(plan["target"])
    await hands.click("button", "Save")
    if '"Save As"' in (await hands.do("wait", seconds=1)).splitlines()[1]:
        await hands.click("button", "Save")  # the first click only closed the list of completions
    if plan["exists"]:
        await hands.click("button", "Replace")
    await hands.wait(f"{plan['target'].split('/')[-2]}/letter.txt")


FAMILIES = {
    "edit-values": Family(make_values, play_values),
    "replace-name": Family(make_replace, play_replace),
    "save-copy": Family(make_copy, play_copy),
}
