"""Releases: is it ready, the notes, a rollback, and what a customer is told about a fix."""
# ruff: noqa: E501 - a wording stands on one line

import json
from collections.abc import Iterator
from datetime import date, timedelta
from random import Random
from typing import Any

from ..casework import Draft, Family
from ..hands import Hands
from ..people import weekday
from ..records import Firm, short_date
from .support import next_key

SUPPORT = "support@northlight.example"


def planned(firm: Firm) -> list[str]:
    return [release.version for release in firm.releases.values() if release.status == "planned"]


def version_after(version: str) -> str:
    major, minor, _ = version.split(".")
    return f"{major}.{int(minor) + 1}.0"


def allowed_day(day: date) -> date:
    """The first day from this one on which a release may ship: no Friday, not the last three working days of a quarter."""
    while True:
        following = [day + timedelta(days=number) for number in range(8)]
        same = [each for each in following if each.weekday() < 5 and each.month == day.month]
        last = day.month in {3, 6, 9, 12} and len(same) <= 3
        if day.weekday() < 4 and not last:
            return day
        day += timedelta(days=1)


# -- readiness ---------------------------------------------------------------------------------------------------------


def draft_ready(firm: Firm, rng: Random) -> Iterator[Draft]:
    qa, lead = firm.titled("QA Engineer"), firm.titled("Release Manager")
    first = int(next_key(firm, "ENG").split("-")[1])
    for number, day in enumerate((date(2026, 6, 12), date(2026, 6, 26), date(2026, 6, 29), date(2026, 6, 17))):
        version = f"6.{number + 1}.0"
        later = f"6.{number + 2}.0"
        makers = [p for p in firm.people.values() if p.title in {"Cloud Engineer", "Firmware Engineer"} and p.left is None]
        summaries = rng.sample(
            (
                "Export keeps the time zone",
                "Alert rules can be copied",
                "Sensor list loads faster",
                "Floor plan zoom",
                "Login with a security key",
                "Report as PDF/A",
                "Battery warning at 15 %",
            ),
            6,
        )
        statuses = ["Done", "Done", "Done", "In Review", "In Progress", "Done"]
        signed = number != 1
        good = allowed_day(day)
        draft = Draft(
            f"Please get version {version} ready; it is planned for {day:%A}, {short_date(day)}. By our release rules: what cannot ship moves to {later}, and if the day is not allowed, the release date moves to the next day that is. Ask {qa.name} whether QA has signed off. Then post in #releases: the version, the date, which tickets ship and which moved, and whether the sign-off is there.\n\n{lead.name}",
            "hard" if number in {1, 2} else "medium",
        )
        for name, when in ((version, day), (later, weekday(day + timedelta(days=28)))):
            draft.rows.append(
                {
                    "app": "tickets",
                    "table": "version",
                    "values": {"id": f"v{name}", "project": "ENG", "name": name, "release_date": str(when), "released": 0},
                }
            )
        keys = []
        for place, (summary, status) in enumerate(zip(summaries, statuses, strict=True)):
            key = f"ENG-{first + place}"
            keys.append(key)
            maker = rng.choice(makers)
            draft.issue(
                key,
                summary,
                f"{summary}.",
                status=status,
                kind="Story",
                assignee=maker.login,
                reporter=lead.login,
                versions=[version],
                created="2026-05-12T09:00:00Z",
            )
        ship = [key for key, status in zip(keys, statuses, strict=True) if status == "Done"]
        moved = [key for key in keys if key not in ship]
        draft.knows(
            qa.email,
            (version,),
            f"{version}: all tickets that are Done pass. You have my sign-off."
            if signed
            else f"No sign-off for {version} yet: {ship[0]} fails two tests. I need until Thursday.",
            unsure="For which version?",
        )
        sheet = draft.sheet
        sheet.asked(qa.name, qa.email, [version])
        for key in moved:
            sheet.changed(f"{key} moved", "tickets", "ticket", key, {"versions": [later]}, points=3)
        if good != day:
            sheet.changed("release date moved", "tickets", "version", version, {"release_date": str(good)}, points=4)
        else:
            sheet.add("release date kept", "record_kept", 2, tuple(sheet.work), ("trap",), kind="version", keys=[version])
        sheet.kept("what ships is left alone", "tickets", "ticket", ship)
        says = (
            {"the version": f"word:{version}", "the date": f"date:{good}"}
            | {f"{key} ships": f"id:{key}" for key in ship}
            | {f"{key} moved": f"id:{key}" for key in moved}
            | {"the next version": f"word:{later}"}
        )
        says |= (
            {"signed off": "claim:signed off|sign-off is there|QA sign-off|has the sign-off|signed|sign-off"}
            if signed
            else {
                "not signed off": "word:not signed off|no sign-off|without sign-off|sign-off is missing|not yet signed|missing",
                "what fails": f"word:fails|fail|failing @ id:{ship[0]}",
            }
        )
        unsigned = "word:not signed|no sign-off|without sign-off|sign-off is missing|not yet signed|not true|is false"
        sheet.post(
            "status",
            "releases",
            says=says,
            fact_points=1,
            after={"heard": qa.email, "words": [version]},
            ids={"ENG": keys},
            opposite=unsigned if signed else "claim:QA has signed|signed off|sign-off is there|has the sign-off",
        )
        sheet.harm(
            "the version was marked as released", {"changed": "version", "key": version, "where": {"released": 1}}, points=6
        )
        draft.key = {"version": version, "later": later, "day": str(good), "moved": str(good) != str(day), "qa": qa.email}
        yield draft


async def solve_ready(hands: Hands, key: dict[str, Any]) -> None:
    await hands.page("Releases", "ENG")
    found = await hands.issues(f'project = ENG AND fixVersion = "{key["version"]}" ORDER BY key')
    ship = [each["key"] for each in found if each["status"]["name"] == "Done"]
    moved = [each["key"] for each in found if each["key"] not in ship]
    for name in moved:
        await hands.change(name, fixVersions=[{"name": key["later"]}])
    versions = json.loads(await hands.call("jira_get_project_versions", project_key="ENG"))
    own = next(each for each in versions if each["name"] == key["version"])
    if key["moved"]:
        await hands.call("jira_update_version", version_id=str(own["id"]), release_date=key["day"])
    answer = await hands.ask(key["qa"], f"Sign-off {key['version']}", f"Has QA signed off {key['version']}?")
    signed = "You have my sign-off" in answer
    problem = "" if signed else hands.find(r"yet: (.*)", answer).replace("I need", "QA needs")
    text = (
        f"{key['version']} is planned for {short_date(date.fromisoformat(key['day']))}. Ships: {', '.join(ship)}. Moved to {key['later']}: {', '.join(moved)}. "
        + ("QA has signed off." if signed else f"QA has not signed off; no sign-off because {problem}")
    )
    await hands.post("releases", text)
    await hands.say(text)


# -- notes -------------------------------------------------------------------------------------------------------------


def draft_notes(firm: Firm, rng: Random) -> Iterator[Draft]:
    lead = firm.titled("Release Manager")
    first = int(next_key(firm, "ENG").split("-")[1])
    for number in range(4):
        version = f"6.{number + 1}.0"
        day = date(2026, 6, 10) + timedelta(days=[0, 6, 7, 13][number])
        summaries = rng.sample(
            (
                "Export keeps the time zone of the site",
                "Alert rules can be copied to other sites",
                "The sensor list loads in half the time",
                "Floor plans can be zoomed",
                "Reports open in the browser",
                "Battery warning at 15 per cent",
                "Sites can be sorted by name",
            ),
            4,
        )
        secret = rng.choice(
            (
                "Password reset token was logged in plain text",
                "Session cookie lacked the secure flag",
                "Old TLS version still accepted by the gateway API",
            )
        )
        draft = Draft(
            f"Please write the release notes of {version} (ships on {short_date(day)}) as a wiki page `Release notes {version}` in ENG and mail them to support, by our release rules. The tickets of the version are in Jira.\n\n{lead.name}",
            "medium" if number % 2 else "hard",
        )
        draft.rows.append(
            {
                "app": "tickets",
                "table": "version",
                "values": {"id": f"v{version}", "project": "ENG", "name": version, "release_date": str(day), "released": 0},
            }
        )
        keys = []
        for place, summary in enumerate([*summaries, secret]):
            key = f"ENG-{first + place}"
            keys.append(key)
            labels = ["cloud", "security"] if summary == secret else ["cloud"]
            draft.issue(
                key,
                summary,
                f"{summary}.",
                status="Done",
                kind="Bug" if summary == secret else "Story",
                reporter=lead.login,
                assignee=lead.login,
                versions=[version],
                labels=labels,
                created="2026-05-12T09:00:00Z",
            )
        undone = f"ENG-{first + 5}"
        draft.issue(
            undone,
            "Dashboard for tablets",
            "Dashboard for tablets.",
            status="In Progress",
            kind="Story",
            reporter=lead.login,
            assignee=lead.login,
            versions=[version],
            created="2026-05-12T09:00:00Z",
        )
        sheet = draft.sheet
        page = {"title": {"has": f"Release notes {version}"}, "space": "ENG"}
        sheet.made("page written", "wiki", "page", page, {"body": {"fact": f"date:{day}"}})
        for place, summary in enumerate(summaries):
            words = " ".join(summary.split()[-3:])
            sheet.add(
                f"page: change {place + 1}",
                "record_has",
                2,
                ("page written",),
                ("wiki",),
                kind="page",
                where=page,
                field="body",
                value={"fact": f"word:{words}"},
            )
        for label, wrong in {
            "no ticket keys": [f"id:{key}" for key in keys],
            "no security details": [f"word:{' '.join(secret.split()[:3])}", "word:" + " ".join(secret.split()[-3:])],
            "nothing unfinished": ["word:dashboard for tablets|tablets"],
        }.items():
            sheet.add(
                f"page: {label}",
                "record_has",
                2,
                ("page written",),
                ("trap",),
                kind="page",
                where=page,
                field="body",
                value={"all": [{"lacks": fact.partition(":")[2].split("|")[0]} for fact in wrong]},
            )
        sheet.mail(
            "notes to support",
            SUPPORT,
            says={"the version": f"word:{version}", "the day": f"date:{day}"}
            | {f"change {place + 1}": "word:" + " ".join(summary.split()[-3:]) for place, summary in enumerate(summaries)},
            fact_points=1,
            omits={
                "ticket keys": [f"id:{key}" for key in keys],
                "security details": [f"word:{' '.join(secret.split()[:3])}"],
                "what is not finished": ["word:tablets"],
            },
        )
        sheet.kept("the tickets are left alone", "tickets", "ticket", [*keys, undone])
        draft.key = {"version": version, "day": str(day)}
        yield draft


async def solve_notes(hands: Hands, key: dict[str, Any]) -> None:
    await hands.page("Releases", "ENG")
    versions = json.loads(await hands.call("jira_get_project_versions", project_key="ENG"))
    assert any(each["name"] == key["version"] for each in versions)
    found = await hands.issues(
        f'project = ENG AND fixVersion = "{key["version"]}" AND status = Done ORDER BY key', fields="summary,status,labels"
    )
    items = "\n".join(f"- {each['summary']}" for each in found if "security" not in each.get("labels", []))
    text = f"Version {key['version']}, {short_date(date.fromisoformat(key['day']))}\n\n{items}\n- Smaller improvements"
    await hands.new_page("ENG", f"Release notes {key['version']}", text)
    await hands.send(SUPPORT, f"Release notes {key['version']}", text)
    await hands.say(f"The notes of {key['version']} are in the wiki and with support.")


# -- a fix for a customer ----------------------------------------------------------------------------------------------


def draft_fix(firm: Firm, rng: Random) -> Iterator[Draft]:
    gone = [release for release in firm.releases.values() if release.rolled_back]
    shipped = [release for release in firm.releases.values() if release.status == "released" and not release.rolled_back]
    coming = [release for release in firm.releases.values() if release.status == "planned"]
    for number in range(4):
        release = (gone[0], shipped[-1], coming[0], gone[-1])[number]
        bug = rng.choice([firm.tickets[key] for key in release.tickets])
        customer = rng.choice([c for c in firm.customers.values() if not c.churned])
        csm = firm.people[customer.csm]
        draft = Draft(
            f"{customer.user.name} ({customer.name}) asked me when `{bug.summary}` comes, it is {bug.key} on our side. Please find out in which version and on which date they get it, or got it, and answer {customer.user.name.split()[0]} by mail with me in copy. No ticket keys to customers, please.\n\n{csm.name}",
            "easy" if number in {1, 2} else "hard",
        )
        sheet = draft.sheet
        version = release
        if release.rolled_back:
            version = firm.releases[version_after(release.version)]
        tense = (
            "word:has shipped|shipped|was released|released|since|available|went out|is out|got it|included"
            if version.status == "released"
            else "word:planned|scheduled|will|expected"
        )
        sheet.mail(
            "answer",
            customer.user.email,
            says={"the version": f"word:{version.version}", "the date": f"date:{version.day}", "in the right tense": tense},
            cc=(csm.email,),
            omits={"the ticket": [f"id:{bug.key}"]}
            | (
                {"the version that was rolled back": [f"word:{release.version}", f"date:{release.day}"]}
                if release.rolled_back
                else {}
            ),
        )
        sheet.kept("the ticket is left alone", "tickets", "ticket", [bug.key])
        sheet.secret("why it was rolled back", ["word:rolled back|rollback"], points=3)
        for label, fact in (("the version", f"word:{version.version}"), ("the date", f"date:{version.day}")):
            sheet.add(f"report: {label}", "answer_says", 1, ("answer: sent",), fact=fact)
        draft.key = {
            "ticket": bug.key,
            "contact": customer.user.email,
            "csm": csm.email,
            "summary": bug.summary,
            "rolled": release.rolled_back,
        }
        yield draft


async def solve_fix(hands: Hands, key: dict[str, Any]) -> None:
    ticket = await hands.issue(key["ticket"])
    version = hands.find(r"\d+\.\d+\.\d+", json.dumps(ticket.get("fix_versions")))
    versions = {each["name"]: each for each in json.loads(await hands.call("jira_get_project_versions", project_key="ENG"))}
    own = versions[version]
    if own.get("released"):
        page = await hands.page(f"Release notes {version}", "ENG")
        if "rolled back" in page:
            await hands.history("releases", 80)
            own = versions[version_after(version)]
    day = short_date(date.fromisoformat(own["releaseDate"] if "releaseDate" in own else own["release_date"]))
    words = (
        f"`{key['summary']}` was released with version {own['name']} on {day}, so you have it already."
        if own.get("released")
        else f"`{key['summary']}` is planned for version {own['name']}, which ships on {day}."
    )
    await hands.send(key["contact"], f"Your question: {key['summary']}", f"Thank you for asking. {words}", cc=(key["csm"],))
    await hands.say(f"Answered: {own['name']}, {day}.")


FAMILIES = (
    Family("ready", draft_ready, solve_ready),
    Family("notes", draft_notes, solve_notes),
    Family("fix", draft_fix, solve_fix),
)
