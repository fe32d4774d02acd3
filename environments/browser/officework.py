"""Errands at Ada's firm: tickets, the wiki, time off. What `tradework.py` shares with them is here too."""

from random import Random
from typing import Any

from .case import Case, added, begin, changed
from .office import ACCESS, ADA, DIRECTOR, HOSTS, STAFF, email_of, people
from .records import Row
from .seeds import TODAY
from .surf import Surfer
from .web import day_text, days_after, money

Step = list[Any]
"""What the solution does: `open site path`, `click role name`, or `fill values`."""


async def play_steps(surf: Surfer, plan: dict[str, Any]) -> dict[str, str]:
    """Play the steps of a plan, and return what is to be filed."""
    for kind, *rest in plan["steps"]:
        match kind:
            case "open":
                await surf.open(*rest)
            case "click":
                await surf.click(*rest)
            case _:
                await surf.fill(rest[0])
    return plan["file"]


def sites_line(*sites: str) -> str:
    return f"Sites: {', '.join(f'http://{HOSTS[site]}' for site in sites)}. {ACCESS}"


def firm_case(
    rng: Random, title: str, prompt: str, wants: list[Row], steps: list[Step], suite: Row, *, outcome: Row | None = None
) -> Case:
    """A case whose outcome is filed as it must be."""
    filed = outcome or {"result": "Done"}
    shown = {name: value for name, value in filed.items() if name != "cents"}
    if "cents" in filed:
        shown["amount"] = money(filed["cents"])
    case = Case(title, prompt, begin(rng), wants, {"steps": steps, "file": shown}, filed)
    case.suite = suite
    return case


def _colleague(rng: Random) -> str:
    return rng.choice([name for email, name in STAFF.items() if email not in {ADA, DIRECTOR}])


# -- tickets -----------------------------------------------------------------------------------------------------------

_FAULTS = (
    ("Printer", "prints blank pages"),
    ("Projector", "turns itself off"),
    ("Door reader", "does not accept badges"),
    ("Coffee machine", "leaks water"),
    ("Monitor", "flickers"),
    ("Phone", "has no dial tone"),
)
_ROOMS = ("room 2.14", "room 2.41", "room 3.14", "the lobby", "the canteen")


def _desk(rng: Random) -> tuple[list[Row], list[tuple[str, str, str]]]:
    """The open issues of the service desk, and their faults and rooms. The first is the one that errands are about."""
    places = [(thing, fault, room) for thing, fault in _FAULTS for room in _ROOMS]
    rng.shuffle(places)
    issues: list[Row] = []
    for number, (thing, fault, room) in enumerate(places[:14], start=1):
        issue = {"key": f"SUP-{number}", "summary": f"{thing} in {room} {fault}", "type": "Incident", "priority": "Medium"}
        day = days_after("2026-02-20", number)
        reporter = email_of(_colleague(rng))
        done = {"status": "Done", "resolution": "Done"} if number % 5 == 0 else {}
        issues.append(issue | done | {"reporter": reporter, "created": f"{day}T08:00:00Z", "updated": f"{day}T08:00:00Z"})
    return issues, places[:14]


def ticket_seed(issues: list[Row]) -> Row:
    project = {"key": "SUP", "name": "Service Desk", "components": ["Building", "Hardware"]}
    return {"tickets": {"people": people(), "projects": [project, {"key": "FIN", "name": "Finance"}], "issues": issues}}


def triage_ticket(rng: Random, level: int) -> Case:
    """Find one ticket among similar ones and set what is asked; at level 4 a duplicate, at level 5 one that exists already."""
    issues, places = _desk(rng)
    place = rng.choice([number for number in range(14) if "status" not in issues[number]])
    key, (thing, fault, room) = issues[place]["key"], places[place]
    who, priority = _colleague(rng), rng.choice(("Highest", "High", "Low"))
    named = f"the ticket that the {thing.lower()} in {room} {fault}"
    outcome, said = {"result": "Done", "reference": key}, f"Please look at it before {day_text(days_after(TODAY, level + 1))}."
    first: Step = ["open", "tickets", f"/browse/{key}"]
    edit: list[Step] = [
        ["click", "link", "Edit issue"],
        ["fill", {"Priority": priority, "Assignee": who}],
        ["click", "button", "Save"],
    ]
    comment: list[Step] = [["fill", {"Add a comment": said}], ["click", "button", "Add comment"]]
    have: Row = {"assignee": email_of(who), "priority": priority}
    wants: list[Row] = [changed("tickets", "issue", key, **have)]
    ask, steps = f"In {named}, set the assignee to {who} and the priority to {priority}.", [first, *edit]
    if level in {2, 3}:
        ask += f' Add the comment "{said}"'
        wants.append(added("tickets", "comment", {"body": said, "author": ADA}, issue=key))
        steps += comment
    if level == 3:
        ask += " Give it the label urgent, and move it to In Progress."
        wants[0]["have"] |= {"labels": "urgent", "status": "In Progress"}
        steps[2] = ["fill", edit[1][1] | {"Labels (with spaces between them)": "urgent"}]
        steps += [["fill", {"Move to": "In Progress"}], ["click", "button", "Change status"]]
    if level == 4:
        return _close_duplicate(rng, issues, place, named)
    if level == 5:
        return _report_once(rng, issues, places, place)
    prompt = f"{ask} Change nothing else. File the errand with the key of the ticket as reference. {sites_line('tickets')}"
    return firm_case(rng, f"Ticket: {thing}", prompt, wants, steps, ticket_seed(issues), outcome=outcome)


def _close_duplicate(rng: Random, issues: list[Row], place: int, named: str) -> Case:
    """The same fault was reported again; the later report is closed."""
    first = issues[place]
    later = first | {"key": "SUP-15", "summary": f"Again: {first['summary'].lower()}", "created": "2026-03-13T08:00:00Z"}
    key = first["key"]
    prompt = (
        f"Someone has reported a fault a second time: {named}. Link the later ticket to the earlier one so that it"
        " duplicates it, and"
        " close the later one: move it to Done with the resolution Duplicate. Leave the earlier one as it is. File"
        " the errand with"
        f" the key of the closed ticket as reference. {sites_line('tickets')}"
    )
    wants = [
        changed("tickets", "issue", "SUP-15", status="Done", resolution="Duplicate"),
        added("tickets", "issue_link", {"outward": key}, type="Duplicate", inward="SUP-15"),
    ]
    steps: list[Step] = [
        ["open", "tickets", "/browse/SUP-15"],
        ["fill", {"This issue": "duplicates", "Issue key": key}],
        ["click", "button", "Link"],
        ["fill", {"Move to": "Done", "Resolution": "Duplicate"}],
        ["click", "button", "Change status"],
    ]
    outcome = {"result": "Done", "reference": "SUP-15"}
    return firm_case(rng, "Close the duplicate", prompt, wants, steps, ticket_seed([*issues, later]), outcome=outcome)


def _report_once(rng: Random, issues: list[Row], places: list[tuple[str, str, str]], place: int) -> Case:
    """A fault is to be reported unless it has been: it has, so a comment is what is wanted."""
    thing, fault, room = places[place]
    key, text = issues[place]["key"], f"It happened again on {day_text(TODAY)}."
    prompt = (
        f"The {thing.lower()} in {room} {fault}. If there is an open ticket for it, add the comment"
        f' "{text}" to it. Only if there is none, create one in the Service Desk: type Incident, priority High. File'
        " the errand with the"
        f" key of the ticket as reference. {sites_line('tickets')}"
    )
    wants = [added("tickets", "comment", {"body": text, "author": ADA}, issue=key)]
    steps: list[Step] = [
        ["open", "tickets", f"/browse/{key}"],
        ["fill", {"Add a comment": text}],
        ["click", "button", "Add comment"],
    ]
    return firm_case(
        rng, f"Report: {thing}", prompt, wants, steps, ticket_seed(issues), outcome={"result": "Done", "reference": key}
    )


# -- the wiki ----------------------------------------------------------------------------------------------------------

FIRST_PAGE = 65_537


def handbook(rng: Random) -> tuple[list[Row], Row]:
    """The pages of the handbook, and the figures in them."""
    figures = {"mileage": f"0.{rng.randrange(28, 36)}", "meal": str(rng.randrange(24, 40)), "hotel": str(rng.randrange(110, 160))}
    rates = (
        f"# Rates\n\n- Own car: EUR {figures['mileage']} a kilometre\n- Meals: EUR {figures['meal']} a day\n"
        f"- Hotel: up to EUR {figures['hotel']} a night\n\nReceipts are needed for everything but meals.\n"
    )
    texts = {
        "Handbook": "Welcome to Northlight.\n",
        "Travel expenses": rates,
        "Travel expenses 2024": rates.replace(figures["mileage"], "0.27"),
        "Sick leave": "Call your manager before nine.\n\nA note from a doctor is needed from the third day on.\n",
        "Visitors": "Visitors sign in at the front desk and are met there.\n",
        "Purchasing": "Bills above EUR 2,500 are approved by the director, Elin Sand. All others by whoever enters them.\n",
    }
    pages = [
        {"space": "HB", "title": title, "content": text, "author": DIRECTOR}
        | ({} if title == "Handbook" else {"parent": "Handbook"})
        for title, text in texts.items()
    ]
    return pages, figures


def wiki_seed(pages: list[Row]) -> Row:
    return {"wiki": {"people": people(), "spaces": [{"key": "HB", "name": "Handbook"}], "pages": pages}}


def update_wiki(rng: Random, level: int) -> Case:
    """A figure is changed, a page is added, an edit is undone, a page is restricted."""
    pages, figures = handbook(rng)
    number = FIRST_PAGE + 1
    match level:
        case 1 | 2:
            return _new_rate(rng, pages, figures, level)
        case 3:
            return _new_page(rng, pages)
        case 4:
            return _undo_edit(rng, pages)
        case _:
            pass
    readers = sorted((ADA, DIRECTOR))
    prompt = (
        "The page Travel expenses of 2024 is out of date. Restrict it so that only Elin Sand and Ada Quist may read"
        " it, and add the label"
        f" archived. Leave the current page as it is. {sites_line('wiki')}"
    )
    wants = [changed("wiki", "page", number + 1, readers=" ".join(readers), labels="archived")]
    steps: list[Step] = [
        ["open", "wiki", f"/page/{number + 1}"],
        ["fill", {"Add labels": "archived"}],
        ["click", "button", "Add labels"],
        ["click", "link", "Settings"],
        ["fill", {"Who alone may read it (addresses, with commas; empty for everyone)": ", ".join(readers)}],
        ["click", "button", "Save restrictions"],
    ]
    return firm_case(rng, "Archive a page", prompt, wants, steps, wiki_seed(pages))


def _new_rate(rng: Random, pages: list[Row], figures: Row, level: int) -> Case:
    number, text, rate = FIRST_PAGE + 1, str(pages[1]["content"]), f"0.{rng.randrange(37, 45)}"
    new = text.replace(f"EUR {figures['mileage']}", f"EUR {rate}")
    ask = f"the rate for one's own car is now EUR {rate} a kilometre"
    want = changed("wiki", "page", number, content=new)
    wants, more, then = [want], list[Step](), ""
    if level == 2:
        meal = str(int(figures["meal"]) + 4)
        new = new.replace(f"EUR {figures['meal']}", f"EUR {meal}")
        want["have"]["content"] = new
        ask += f", and meals are EUR {meal} a day"
        said = "Rates of April."
        then = f' Then add the comment "{said}" to the page.'
        wants.append(added("wiki", "comment", {"body": said}, page=number))
        more = [["fill", {"Add a comment": said}], ["click", "button", "Add comment"]]
    prompt = (
        f"Please correct the current page Travel expenses in the handbook: {ask}. Leave the rest of the text as it is."
        f"{then} {sites_line('wiki')}"
    )
    steps: list[Step] = [
        ["open", "wiki", f"/page/{number}"],
        ["click", "link", "Edit"],
        ["fill", {"Content (Markdown)": new}],
        ["click", "button", "Save"],
        *more,
    ]
    return firm_case(rng, "New rates in the wiki", prompt, wants, steps, wiki_seed(pages))


def _new_page(rng: Random, pages: list[Row]) -> Case:
    topic = rng.choice(("Parking", "Bicycle store", "Meeting rooms"))
    line = f"{topic}: ask at the front desk, extension {rng.randrange(200, 299)}."
    prompt = (
        f'Add a page to the handbook, below the page Visitors. Its title is "{topic}" and its whole text is this'
        f' line: "{line}" Give it the'
        f" label facilities. {sites_line('wiki')}"
    )
    parent = FIRST_PAGE + 4
    want = added("wiki", "page", {"content": line, "parent": parent, "labels": "facilities", "space": "HB"}, title=topic)
    steps: list[Step] = [
        ["open", "wiki", f"/page/{parent}"],
        ["click", "link", "Create child page"],
        ["fill", {"Space": "Handbook", "Title": topic, "Content (Markdown)": line}],
        ["click", "button", "Create"],
        ["fill", {"Add labels": "facilities"}],
        ["click", "button", "Add labels"],
    ]
    return firm_case(rng, f"Page on {topic.lower()}", prompt, [want], steps, wiki_seed(pages))


def _undo_edit(rng: Random, pages: list[Row]) -> Case:
    """A page was edited wrongly; the text of its first version is wanted."""
    hour = rng.choice(("eight", "nine", "ten"))
    good = f"Call your manager before {hour}.\n\nA note from a doctor is needed from the second day on.\n"
    page = pages[3]
    page["versions"] = [
        {"content": good, "author": DIRECTOR, "at": "2026-01-10T09:00:00Z", "message": "checked with HR"},
        {
            "content": "Call your manager.\n",
            "author": email_of("Dora Fellner"),
            "at": "2026-02-01T09:00:00Z",
            "message": "shorter",
        },
    ]
    number = FIRST_PAGE + 3
    prompt = (
        "Someone has edited the page Sick leave in the handbook without asking. Please put the text back that Elin"
        " Sand had checked with"
        f" HR: it is in the history of the page. {sites_line('wiki')}"
    )
    steps: list[Step] = [
        ["open", "wiki", f"/page/{number}/version/1"],
        ["open", "wiki", f"/page/{number}/edit"],
        ["fill", {"Content (Markdown)": good}],
        ["click", "button", "Save"],
    ]
    return firm_case(rng, "Undo an edit", prompt, [changed("wiki", "page", number, content=good)], steps, wiki_seed(pages))


# -- time off ----------------------------------------------------------------------------------------------------------


def _staff(rng: Random, requests: list[Row], allowance: float = 25.0) -> Row:
    titles = ("Head of Support", "Technician", "Technician", "Clerk", "Director", "Clerk")
    employees: list[Row] = []
    for place, (email, name) in enumerate(STAFF.items()):
        first, last = name.split()
        above = None if email == DIRECTOR else DIRECTOR if email == ADA else ADA
        person = {
            "id": 101 + place,
            "email": email,
            "first_name": first,
            "last_name": last,
            "title": titles[place],
            "manager": above,
        }
        employees.append(person | {"department": "Support", "allowance": allowance, "phone": f"ext. {rng.randrange(200, 299)}"})
    return {"directory": {"employees": employees, "time_off": requests}}


def decide_time_off(rng: Random, level: int) -> Case:
    """Requests of Ada's team are decided; at level 4 she asks for days herself, at level 5 too few are left."""
    names = [name for email, name in STAFF.items() if email not in {ADA, DIRECTOR}]
    rng.shuffle(names)
    week = days_after("2026-04-06", 7 * rng.randrange(4))
    last = days_after(week, 4)
    plain = {"kind": "Vacation", "start": week, "end": last, "status": "pending"}
    others = [{"employee": email_of(names[2]), **plain, "start": days_after(week, 28), "end": days_after(last, 28)}]
    asked = [{"employee": email_of(names[0]), **plain}, {"employee": email_of(names[1]), **plain, "start": days_after(week, 1)}]
    note = "Two of the team cannot be away in one week."
    button = f"{names[0]}, {week}"
    approve: list[Step] = [["open", "directory", "/time-off"], ["click", "button", f"Approve {button}"]]
    wants: list[Row] = [changed("directory", "time_off", 1, status="approved")]
    requests, ask = [asked[0], *others], f"Approve the time off that {names[0]} has asked for from {day_text(week)} on."
    steps, outcome = approve, {"result": "Done"}
    if level == 2:
        ask = f'Deny the time off that {names[0]} has asked for from {day_text(week)} on, with the note "{note}"'
        wants = [changed("directory", "time_off", 1, status="denied", note=note)]
        steps = [approve[0], ["fill", {f"Note for {button}": note}], ["click", "button", f"Deny {button}"]]
    if level >= 3:
        second = f"{names[1]}, {days_after(week, 1)}"
        requests = [asked[0], asked[1], *others]
        ask = (
            f"{names[0]} and {names[1]} have both asked for time off in the week of {day_text(week)}, and only one"
            " can go: the one"
            f' whose days begin first. Approve that request, and deny the other with the note "{note}"'
        )
        wants.append(changed("directory", "time_off", 2, status="denied", note=note))
        steps = [*approve, ["fill", {f"Note for {second}": note}], ["click", "button", f"Deny {second}"]]
    if level >= 4:
        own, until = days_after(week, 14), days_after(last, 14)
        ask += f" Then ask for vacation for me, from {day_text(own)} to {day_text(until)}"
        wants.append(
            added("directory", "time_off", {"kind": "Vacation", "end": until, "status": "pending"}, employee=101, start=own)
        )
        steps += [
            ["open", "directory", "/time-off/new"],
            ["fill", {"Kind": "Vacation", "First day (YYYY-MM-DD)": own, "Last day (YYYY-MM-DD)": until}],
            ["click", "button", "Send request"],
        ]
    if level == 5:
        left = rng.randrange(1, 4)
        ask = (
            f"Ask for vacation for me, from {day_text(week)} to {day_text(last)}. If I have not enough days left for"
            " it, change nothing and"
            ' file "Not possible" with the reason "Not enough days left", and the number of days that I have left as amount.'
        )
        outcome = {"result": "Not possible", "reason": "Not enough days left", "cents": 100 * left}
        prompt = f"{ask} {sites_line('directory')}"
        return firm_case(rng, "Vacation", prompt, [], approve[:1], _staff(rng, requests, float(left)), outcome=outcome)
    prompt = f"{ask}{'' if ask.endswith('.') else '.'} Leave all other requests as they are. {sites_line('directory')}"
    return firm_case(rng, "Time off", prompt, wants, steps, _staff(rng, requests), outcome=outcome)


FAMILIES = {
    "triage-ticket": (triage_ticket, play_steps),
    "update-wiki": (update_wiki, play_steps),
    "decide-time-off": (decide_time_off, play_steps),
}
