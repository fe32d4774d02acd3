"""Worlds of apps: opening one, copying one, a tool call, and the memory of 200 at once.

    make bench NAME=apps

Mail, chat, a calendar and a directory of 40 people; 10,000 mails, 10,000 messages and 1,000 events.
"""

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import anyio
from report import Report, Row, publish, say

from sandlot.apps.app import App
from sandlot.apps.calendar.load import load_calendar
from sandlot.apps.calendar.tools import CALENDAR
from sandlot.apps.chat.load import load_chat
from sandlot.apps.chat.tools import CHAT
from sandlot.apps.directory import DIRECTORY
from sandlot.apps.directory.loading import load_directory
from sandlot.apps.final import FinalApps, encode_journal
from sandlot.apps.live import AppsSnapshot, LiveApps, empty_snapshot
from sandlot.apps.mail.load import load_mail
from sandlot.apps.mail.tools import MAIL
from sandlot.apps.tool import tools_of
from sandlot.core.trace import ToolCall

NAME = "apps"
APPS: list[App] = [MAIL, CHAT, CALENDAR, DIRECTORY]
WORLDS = 200
WORDS = ("budget", "invoice", "release", "customer", "meeting", "report", "server", "contract", "travel", "payroll", "design")


def filled(mails: int, messages: int, events: int) -> AppsSnapshot:
    """The base state of a firm of forty."""
    rng = Random(0)
    people = [f"person{number}@firm.example" for number in range(40)]
    apps = LiveApps(APPS, empty_snapshot(APPS))

    def text() -> str:
        return " ".join(rng.choices(WORDS, k=60))

    def day() -> str:
        return f"2025-{rng.randrange(1, 13):02}-{rng.randrange(1, 29):02}T{rng.randrange(8, 18):02}:00:00"

    with apps.acting("base"):
        letters = [
            {
                "sender": rng.choice(people),
                "to": rng.sample(people, 2),
                "subject": f"{rng.choice(WORDS)} {n}",
                "body": text(),
                "at": day(),
            }
            for n in range(mails)
        ]
        load_mail(apps.mail, accounts={person: person for person in people}, messages=letters)
        posts = [{"sender": rng.choice(people), "channel": "#general", "text": text(), "at": day()} for _ in range(messages)]
        members = [{"email": person, "real_name": person} for person in people]
        load_chat(apps.chat, members=members, channels=[{"name": "general", "members": people}], messages=posts)
        days = [day() for _ in range(events)]
        meetings = [
            {
                "calendar": rng.choice(people),
                "summary": rng.choice(WORDS),
                "start": at,
                "end": at.replace(":00:00", ":30:00"),
                "attendees": rng.sample(people, 3),
            }
            for at in days
        ]
        load_calendar(apps.calendar, owners={person: person for person in people}, events=meetings)
        load_directory(apps.directory, employees=[{"email": person, "first_name": "A", "last_name": person} for person in people])
    apps.journal.clear()
    apps.actor = people[0]
    base = apps.freeze()
    apps.close()
    return base


def median_ms(act: Callable[[], Any], times: int = 50) -> float:
    """CPU milliseconds of the middle one of many."""
    taken: list[float] = []
    for _ in range(times):
        began = time.process_time()
        act()
        taken.append(1000 * (time.process_time() - began))
    return statistics.median(taken)


def resident_mb() -> float:
    """Memory of this process."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def opened(base: AppsSnapshot) -> LiveApps:
    apps = LiveApps(APPS, base)
    apps.begin()
    return apps


def call_ms(apps: LiveApps, tool: str, **arguments: Any) -> float:
    """One tool call, in this thread."""
    found = next(each for each in tools_of(APPS) if each.spec.name == tool)
    world: Any = SimpleNamespace(apps=apps)

    async def many() -> float:
        taken: list[float] = []
        for number in range(50):
            began = time.process_time()
            result = await found.call(world, ToolCall(id=str(number), name=tool, arguments=arguments))
            taken.append(1000 * (time.process_time() - began))
            assert not result.error, result.text
        return statistics.median(taken)

    return anyio.run(many)


def measured(mails: int, messages: int, events: int, worlds: int) -> dict[str, float]:
    began = time.process_time()
    base = filled(mails, messages, events)
    numbers = {"fill_s": time.process_time() - began, "base_mb": sum(map(len, base.states.values())) / 2**20}
    say(f"filled in {numbers['fill_s']:.1f} s: {numbers['base_mb']:.1f} MB")
    numbers["open_ms"] = median_ms(lambda: opened(base).close())
    live = opened(base)
    numbers["copy_ms"] = median_ms(live.freeze)
    numbers["send_ms"] = call_ms(live, "send_email", to=["person1@firm.example"], subject="s", body="text")
    numbers["search_ms"] = call_ms(live, "search_emails", query="from:person3 budget newer_than:2y")
    numbers["journal_kb"] = len(encode_journal(live.journal)) / 1024
    stored = encode_journal(live.journal)
    numbers["rebuild_ms"] = median_ms(lambda: FinalApps(base.states, stored, "").mail.value("SELECT count(*) FROM message"), 20)
    live.close()
    gc.collect()
    before = resident_mb()
    held = [opened(base) for _ in range(worlds)]
    numbers["world_mb"] = (resident_mb() - before) / worlds
    for apps in held:
        apps.close()
    return numbers


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--worlds", type=int, default=WORLDS)
    parser.add_argument("--mails", type=int, default=10_000)
    asked = parser.parse_args()
    ours = measured(asked.mails, asked.mails, asked.mails // 10, asked.worlds)
    rows = [
        Row("base state of four apps, MB", round(ours["base_mb"], 1)),
        Row("filling it, once in a process, s", round(ours["fill_s"], 1)),
        Row("opening a world from it (a reset), ms", round(ours["open_ms"], 2)),
        Row("copying a world (a snapshot), ms", round(ours["copy_ms"], 2)),
        Row("`send_email`, ms", round(ours["send_ms"], 2)),
        Row("`search_emails`, ms", round(ours["search_ms"], 2)),
        Row("rebuilding the final state for checks, ms", round(ours["rebuild_ms"], 2)),
        Row("journal of 50 sent mails, KB", round(ours["journal_kb"], 1)),
        Row(f"memory a world, {asked.worlds} at once, MB", round(ours["world_mb"], 1)),
    ]
    publish(Report(name=NAME, ours=ours, peers={}, ratios={}, rows=rows), write_table=asked.worlds == WORLDS)


if __name__ == "__main__":
    main()
