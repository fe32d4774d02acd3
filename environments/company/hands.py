"""The golden solutions' hands: each deed as the tool calls an agent would make. They see only what the tools answer."""
# ruff: noqa: E501 - records, wordings and tables stand on one line

import json
import re
from datetime import UTC, datetime
from typing import Any

from sandlot import Agent

DESK = "desk@northlight.example"


class Hands:
    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.read: list[str] = []
        """Everything that the tools answered."""

    async def call(self, tool: str, **arguments: Any) -> str:
        text = str(await self.agent.call(tool, **arguments))
        self.read.append(text)
        return text

    def find(self, pattern: str, text: str | None = None) -> str:
        """What a pattern finds in an answer, or in the last one in which it is found at all."""
        for each in [text] if text is not None else reversed(self.read):
            if match := re.search(pattern, each):
                return match[1] if match.groups() else match[0]
        raise AssertionError(f"`{pattern}` was not in what the tools answered: {(text or self.read[-1])[:400]}")

    # -- mail ----------------------------------------------------------------------------------------------------------

    async def mails(self, query: str, most: int = 10) -> list[str]:
        """Search, and read what was found, newest first."""
        found = await self.call("search_emails", query=query, maxResults=most)
        return [await self.call("read_email", messageId=name) for name in re.findall(r"^ID: (\S+)", found, re.MULTILINE)]

    async def mail(self, query: str) -> str:
        """Read the newest mail that a search finds."""
        found = await self.mails(query, 1)
        assert found, f"no mail for {query}"
        return found[0]

    async def send(
        self, to: str | list[str], subject: str, body: str, *, cc: tuple[str, ...] = (), thread: str | None = None
    ) -> None:
        more: dict[str, Any] = ({"cc": list(cc)} if cc else {}) | ({"threadId": thread} if thread else {})
        said = await self.call("send_email", to=[to] if isinstance(to, str) else to, subject=subject, body=body, **more)
        assert "success" in said, said

    async def reply(self, mail: str, body: str, *, cc: tuple[str, ...] = ()) -> None:
        """Answer a mail that was read."""
        subject = re.search(r"^Subject: (.*)$", mail, re.MULTILINE)[1]
        sender = re.search(r"^From: .*?([^\s<>]+@[^\s<>]+)>?$", mail, re.MULTILINE)[1]
        thread = re.search(r"^Thread ID: (\S+)", mail)[1]
        await self.send(sender, subject if subject.startswith("Re:") else f"Re: {subject}", body, cc=cc, thread=thread)

    async def ask(self, email: str, subject: str, question: str, minutes: int = 45) -> str:
        """Write to a colleague, wait, and read the answer."""
        await self.send(email, subject, question)
        await self.call("wait", minutes=minutes)
        answer = await self.mail(f"from:{email} subject:({subject})")
        return answer.partition("\n\n")[2]

    # -- chat ----------------------------------------------------------------------------------------------------------

    async def channel(self, name: str) -> str:
        return self.find(rf'"id": ?"(\w+)",[^{{}}]*?"name": ?"{name}"', await self.call("slack_list_channels", limit=200))

    async def history(self, name: str, limit: int = 60) -> str:
        return await self.call("slack_get_channel_history", channel_id=await self.channel(name), limit=limit)

    async def post(self, name: str, text: str) -> None:
        await self.call("slack_post_message", channel_id=await self.channel(name), text=text)

    # -- tickets -------------------------------------------------------------------------------------------------------

    async def issues(
        self, jql: str, limit: int = 50, fields: str = "summary,status,priority,assignee,fixVersions,created,duedate"
    ) -> list[dict[str, Any]]:
        return json.loads(await self.call("jira_search", jql=jql, limit=limit, fields=fields))["issues"]

    async def issue(self, key: str) -> dict[str, Any]:
        return json.loads(await self.call("jira_get_issue", issue_key=key, fields="*all", comment_limit=20))

    async def new_issue(
        self, project: str, summary: str, kind: str, text: str, assignee: str | None = None, **fields: Any
    ) -> str:
        more = {"assignee": assignee} if assignee else {}
        said = await self.call(
            "jira_create_issue",
            project_key=project,
            summary=summary,
            issue_type=kind,
            description=text,
            additional_fields=json.dumps(fields),
            **more,
        )
        return self.find(rf"\b({project}-\d+)", said)

    async def comment(self, key: str, text: str) -> None:
        await self.call("jira_add_comment", issue_key=key, body=text)

    async def move(self, key: str, status: str) -> None:
        steps = json.loads(await self.call("jira_get_transitions", issue_key=key))
        step = next(each for each in steps if status in {each["name"], each["to_status"]})
        await self.call("jira_transition_issue", issue_key=key, transition_id=str(step["id"]))

    async def change(self, key: str, **fields: Any) -> None:
        await self.call("jira_update_issue", issue_key=key, fields=json.dumps(fields))

    # -- wiki ----------------------------------------------------------------------------------------------------------

    async def page(self, title: str, space: str) -> str:
        """The text of a page."""
        return (await self.open_page(title, space))[1]

    async def titles(self, words: str, space: str) -> list[str]:
        """The titles of the pages of a space that a search finds."""
        tree = await self.call("confluence_get_space_page_tree", space_key=space, limit=200)
        return sorted({title for title in re.findall(r'"title": "([^"]+)"', tree) if title.startswith(words)})

    async def open_page(self, title: str, space: str) -> tuple[str, str]:
        """The id and the text of a page."""
        page = json.loads(await self.call("confluence_get_page", title=title, space_key=space))["metadata"]
        return str(page["id"]), page["content"]["value"]

    async def new_page(self, space: str, title: str, body: str) -> None:
        await self.call("confluence_create_page", space_key=space, title=title, content=body)

    async def set_page(self, number: str, title: str, body: str) -> None:
        await self.call("confluence_update_page", page_id=number, title=title, content=body)

    async def versions(self, project: str) -> list[dict[str, Any]]:
        return json.loads(await self.call("jira_get_project_versions", project_key=project))

    # -- calendar ------------------------------------------------------------------------------------------------------

    async def events(self, email: str, day: str) -> list[dict[str, Any]]:
        """What is in somebody's calendar on a day."""
        found = json.loads(
            await self.call("list-events", calendarId=email, timeMin=f"{day}T00:00:00", timeMax=f"{day}T23:59:59", timeZone="UTC")
        )
        return [event_row(each) for each in found.get("events", found) if "dateTime" in each["start"]]

    async def rooms(self, day: str) -> list[dict[str, Any]]:
        """All meetings of the firm on a day."""
        return await self.events("primary", day)

    async def new_event(
        self, title: str, start: datetime, end: datetime, guests: list[str], *, location: str = "", description: str = ""
    ) -> None:
        more = ({"location": location} if location else {}) | ({"description": description} if description else {})
        said = await self.call(
            "create-event", calendarId="primary", summary=title, start=start.isoformat(), end=end.isoformat(), timeZone="UTC",
            attendees=[{"email": each} for each in guests], sendUpdates="all", **more,
        )  # fmt: skip
        assert '"event"' in said, said

    # -- directory -----------------------------------------------------------------------------------------------------

    async def employee(self, name: str) -> int:
        return int(self.find(r"Employee ID: (\d+)", await self.call("bamboo_find_employee", query=name)))

    # -- CRM -----------------------------------------------------------------------------------------------------------

    async def objects(self, kind: str, **given: Any) -> list[dict[str, Any]]:
        """Everything that a search finds, page by page."""
        found: list[dict[str, Any]] = []
        more: dict[str, Any] = {}
        for _ in range(10):
            answer = json.loads(await self.call("hubspot-search-objects", objectType=kind, limit=20, **given, **more))
            found += answer["results"]
            if "paging" not in answer:
                break
            more = {"after": answer["paging"]["next"]["after"]}
        return found

    async def deal(self, name: str) -> dict[str, Any]:
        found = await self.objects(
            "deals", query=name, properties=["dealname", "dealstage", "amount", "closedate", "hubspot_owner_id"]
        )
        return next(each for each in found if each["properties"]["dealname"].startswith(f"{name} "))

    async def set_object(self, kind: str, number: str, **properties: str) -> None:
        said = await self.call("hubspot-batch-update-objects", objectType=kind, inputs=[{"id": number, "properties": properties}])
        assert "rror" not in said[:60], said

    async def company_of(self, deal: str) -> dict[str, Any]:
        found = json.loads(
            await self.call("hubspot-list-associations", objectType="deals", objectId=deal, toObjectType="companies")
        )
        number = str(found["results"][0]["toObjectId"])
        read = await self.call(
            "hubspot-batch-read-objects",
            objectType="companies",
            inputs=[{"id": number}],
            properties=["name", "country", "domain"],
        )
        return json.loads(read)["results"][0]["properties"]

    async def contact_of(self, company: str, role: str) -> str:
        """The address of the one with a role at a company."""
        found = await self.objects("contacts", query=company, properties=["email", "jobtitle", "company"])
        return next(
            each["properties"]["email"]
            for each in found
            if (each["properties"]["company"], each["properties"]["jobtitle"]) == (company, role)
        )

    async def owner(self, email: str) -> str:
        """The id of an owner, as deals carry it."""
        found = await self.objects("users", query=email, properties=["hs_email", "hubspot_owner_id"])
        return found[0]["properties"]["hubspot_owner_id"]

    async def owner_name(self, number: str) -> str:
        filters = [{"filters": [{"propertyName": "hubspot_owner_id", "operator": "EQ", "value": number}]}]
        found = await self.objects("users", filterGroups=filters, properties=["hs_given_name", "hs_family_name"])
        return f"{found[0]['properties']['hs_given_name']} {found[0]['properties']['hs_family_name']}"

    # -- books ---------------------------------------------------------------------------------------------------------

    async def contact(self, name: str) -> str:
        """The id of the contact with exactly this name."""
        found = await self.call("list-contacts", searchTerm=name)
        return self.find(rf"Contact: {re.escape(name)}\nID: (\S+)", found)

    async def invoices(self, name: str) -> list[dict[str, Any]]:
        """All invoices and bills of a contact."""
        contact, rows = await self.contact(name), []
        for page in range(1, 9):
            found = documents(await self.call("list-invoices", page=page, contactIds=[contact]))
            rows += found
            if len(found) < 10:
                break
        return rows

    async def numbered(self, numbers: list[str]) -> list[dict[str, Any]]:
        return documents(await self.call("list-invoices", page=1, invoiceNumbers=numbers))

    async def account(self, name: str) -> str:
        return self.find(rf"Account: {name}\nCode: \w+\nID: (\S+)", await self.call("list-accounts"))

    async def pay(self, row: dict[str, Any], account: str, cents: int, day: str) -> None:
        said = await self.call(
            "create-payment", invoiceId=row["id"], accountId=account, amount=cents / 100, date=day, reference=row["number"]
        )
        assert "rror" not in said, said

    async def say(self, text: str) -> None:
        await self.agent.say(text)


def event_row(event: dict[str, Any]) -> dict[str, Any]:
    moments = {
        side: datetime.fromisoformat(event[side]["dateTime"]).astimezone(UTC).replace(tzinfo=None) for side in ("start", "end")
    }
    guests = [each["email"] for each in event.get("attendees", []) if each["email"] != DESK]
    host = re.search(r"Host: (.*)", event.get("description", ""))
    named = {
        "id": event["id"],
        "title": event.get("summary", ""),
        "location": event.get("location", ""),
        "calendar": event.get("calendarId", "primary"),
    }
    return {**named, **moments, "guests": guests, "host": host[1] if host else ""}


def documents(text: str) -> list[dict[str, Any]]:
    """The invoices that a listing shows."""
    rows = []
    for block in text.split("Invoice ID: ")[1:]:
        values = dict(re.findall(r"^(?:Item )?([A-Z][\w ]+): (.*)$", "Invoice ID: " + block, re.MULTILINE))
        contact, contact_id = re.match(r"(.*) \((\S+)\)$", values["Contact"]).groups()
        rows.append(
            {
                "id": values["Invoice ID"].strip(), "number": values["Invoice"], "reference": values.get("Reference", ""), "type": values["Type"],
                "status": values["Status"], "contact": contact, "contact_id": contact_id, "due": values.get("Due Date", ""), "date": values["Date"],
                "total": cents(values["Total"]), "open": cents(values.get("Amount Due", "0")), "net": cents(values.get("Sub Total", values["Total"])),
                "account": values.get("Account Code", ""), "tax_type": values.get("Tax Type", ""),
            }
        )  # fmt: skip
    return rows


def cents(text: str) -> int:
    whole, _, part = text.replace(",", "").partition(".")
    return int(whole) * 100 + int(part.ljust(2, "0") or 0)
