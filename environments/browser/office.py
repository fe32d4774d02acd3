# ruff: noqa: S608 - the names in the queries are constants of this file
"""The sites of Ada's firm: tickets, wiki, CRM, books and people. They are the apps of Sandlot, with their own pages.

A change in such an app touches several rows: a comment also changes when its issue was updated. So what changed is compared in
views that show what a person would call one thing, such as an issue with its labels, before and after.
"""

from collections.abc import Callable
from typing import Any

from sandlot.apps import (
    ACCOUNTING,
    CRM,
    DIRECTORY,
    TICKETS,
    WIKI,
    LiveApp,
    load_accounting,
    load_crm,
    load_directory,
    load_tickets,
    load_wiki,
)

from .records import Row

ADA = "ada.quist@northlight.example"
"""Who the agent acts as at the firm's sites."""
APPS = tuple(app.offering() for app in (TICKETS, WIKI, CRM, ACCOUNTING, DIRECTORY))
HOSTS = {
    "tickets": "tickets.example",
    "wiki": "wiki.example",
    "crm": "crm.example",
    "accounting": "books.example",
    "directory": "people.example",
}
STAFF = {
    ADA: "Ada Quist",
    "ben.okafor@northlight.example": "Ben Okafor",
    "carla.diaz@northlight.example": "Carla Diaz",
    "dario.fell@northlight.example": "Dario Fell",
    "elin.sand@northlight.example": "Elin Sand",
    "dora.fellner@northlight.example": "Dora Fellner",
}
DIRECTOR = "elin.sand@northlight.example"
ACCESS = "You are signed in there as Ada."


def email_of(name: str) -> str:
    return next(email for email, shown in STAFF.items() if shown == name)


def people() -> list[Row]:
    return [{"display_name": name, "email": email} for email, name in STAFF.items()]


LOADERS: dict[str, Callable[[LiveApp, Any], Any]] = {
    "tickets": load_tickets,
    "wiki": load_wiki,
    "crm": load_crm,
    "accounting": load_accounting,
    "directory": lambda app, seed: load_directory(app, **seed),
}


def _list(column: str, table: str, where: str) -> str:
    return f"(SELECT group_concat(each, ' ') FROM (SELECT {column} AS each FROM {table} WHERE {where} ORDER BY 1))"


def _record(kind: str, columns: str, others: str = "'contacts', 'companies', 'deals'") -> str:
    linked = _list("to_id", "association", f"from_id = {kind}.id AND to_type IN ({others})")
    return f"SELECT id, {columns}, {linked} AS linked FROM {kind} WHERE NOT archived"


_READ = "page = page.id AND operation = 'read'"
_PERSON = "(SELECT email FROM person WHERE account_id = {0}) AS {0}"
_LINES = _list("description || '/' || amount || '/' || account || '/' || tax_type", "line", "document = {0}.id")
_OF_CONTACT = "(SELECT name FROM contact WHERE contact.id = {0}.contact) AS contact"
VIEWS: dict[str, dict[str, str]] = {
    "tickets": {
        "issue": "SELECT key AS id, project, type, summary, description, status, resolution, priority, duedate, parent, "
        f"{_PERSON.format('assignee')}, {_PERSON.format('reporter')}, {_list('label', 'issue_label', 'issue = key')} AS labels, "
        f"{_list('component', 'issue_component', 'issue = key')} AS components FROM issue",
        "comment": f"SELECT id, issue, body, {_PERSON.format('author')} FROM comment",
        "issue_link": "SELECT id, type, inward, outward FROM issue_link",
        "worklog": "SELECT id, issue, time_spent_s FROM worklog",
    },
    "wiki": {
        "page": f"SELECT id, space, title, parent, content, {_list('name', 'label', 'page = page.id')} AS labels, "
        f"{_list('email', 'restriction JOIN person USING (account_id)', _READ)} AS readers FROM page",
        "comment": "SELECT id, page, body, parent FROM comment",
    },
    "crm": {
        "contact": _record("contact", "firstname, lastname, email, phone, jobtitle, lifecyclestage"),
        "company": _record("company", "name, domain, city, phone, lifecyclestage, hubspot_owner_id", "'companies'"),
        "deal": _record("deal", "dealname, amount, dealstage, closed_lost_reason, hubspot_owner_id"),
        "note": _record("note", "hs_note_body"),
        "task": _record("task", "hs_task_subject, hs_task_status, hs_timestamp"),
    },
    "accounting": {
        "invoice": f"SELECT id, number, type, date, due_date, status, reference, total, paid, {_OF_CONTACT.format('invoice')}, "
        f"{_LINES.format('invoice')} AS lines FROM invoice WHERE status <> 'DELETED'",
        "payment": "SELECT id, (SELECT number FROM invoice WHERE invoice.id = payment.invoice) AS invoice, amount, date,"
        " reference, (SELECT code FROM account WHERE account.id = payment.account) AS account FROM payment",
        "contact": "SELECT id, name, first_name, last_name, email, phone FROM contact",
        "credit_note": "SELECT id, type, total, status FROM credit_note",
        "bank_transaction": "SELECT id, type, total FROM bank_transaction",
        "manual_journal": "SELECT id, narration, status FROM manual_journal",
    },
    "directory": {
        "employee": "SELECT id, title, department, location, phone, manager, status FROM employee",
        "time_off": "SELECT id, employee, kind, start, end, status, note FROM time_off",
    },
}


def office_changes(apps: Any) -> list[Row]:
    """For each thing at the firm's sites that ended up different: app, view, how it began and how it ended."""
    found: list[Row] = []
    for app, views in VIEWS.items():
        for view, sql in views.items():
            before = {row["id"]: row for row in apps[app].start_rows(sql)}
            after = {row["id"]: row for row in apps[app].rows(sql)}
            found += [
                {"app": app, "table": view, "before": before.get(number), "after": after.get(number)}
                for number in {**before, **after}
                if before.get(number) != after.get(number)
            ]
    return found
