"""Seed data for the directory: employees and their time off, as records."""

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from sandlot.apps.directory.tools import workdays
from sandlot.apps.live import LiveApp
from sandlot.core.errors import AuthorError


class _Person(msgspec.Struct, frozen=True):
    email: str
    first_name: str
    last_name: str
    title: str = ""
    department: str = ""
    location: str = ""
    manager: str | None = None
    """The manager's address."""
    hired: str = "2024-01-01"
    phone: str = ""
    is_hr: bool = False
    allowance: float = 25.0
    pay: float | None = None
    currency: str = "EUR"
    id: int | None = None


def load_directory(app: LiveApp, *, employees: Iterable[Mapping[str, Any]], time_off: Iterable[Mapping[str, Any]] = ()) -> None:
    """Fill the directory.

    - `employees`: `email`, `first_name`, `last_name`, and maybe `title`, `department`, `location`, `manager` (an address, of
      anyone in the list), `hired`, `phone`, `is_hr`, `allowance` (days of vacation a year), `pay`, `currency` and `id`.
    - `time_off`: `employee` (an address), `kind`, `start`, `end`, `status`, and maybe `note`.
    """
    try:
        people = [
            msgspec.convert({key: value for key, value in each.items() if value is not None}, _Person) for each in employees
        ]
    except msgspec.ValidationError as error:
        raise AuthorError(f"an employee of the directory to load: {error}") from error
    for number, person in enumerate(people, start=1):
        fields = msgspec.structs.asdict(person) | {
            "id": person.id or 100 + number,
            "manager": None,
            "email": person.email.lower(),
        }
        pay, currency = fields.pop("pay"), fields.pop("currency")
        made = app.insert("employee", **fields)
        if pay is not None:
            app.insert("pay", employee=made, amount=pay, currency=currency, since=person.hired)
    for person in people:
        if person.manager:
            above = _number_of(app, person.manager)
            app.run("UPDATE employee SET manager = ? WHERE email = ?", above, person.email.lower())
    for each in time_off:
        days = workdays(each["start"], each["end"])
        row = {
            "kind": each["kind"],
            "start": each["start"],
            "end": each["end"],
            "status": each["status"],
            "note": each.get("note", ""),
        }
        app.insert("time_off", employee=_number_of(app, each["employee"]), days=days, created=app.at, **row)


def _number_of(app: LiveApp, email: str) -> int:
    found = app.value("SELECT id FROM employee WHERE email = ?", email.lower())
    if found is None:
        raise AuthorError(f"the directory to load has no employee `{email}`")
    return found
