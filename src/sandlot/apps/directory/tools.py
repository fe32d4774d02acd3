"""An HR directory: who works here, for whom, who is away, and time off.

Reading has tools of the public, unofficial server `@zuharz/bamboo-mcp-server` for BambooHR. That server only reads, so the tools
whose names begin with `hr_` are Sandlot's own: profiles with the manager, time off, changes. Left out of the public server are
its four tools for datasets and reports.

Pay is shown to the person, to the managers above, and to HR. Requests are decided by a manager above, or by HR.
"""

import re
from collections.abc import Sequence
from datetime import date, timedelta
from typing import Any, Literal

from sandlot.apps.app import App
from sandlot.apps.issues import ArgumentIssue
from sandlot.apps.live import LiveApp
from sandlot.apps.recorded import RecordedServer, RecordedTool
from sandlot.core.errors import ToolError

_SCHEMA = """
CREATE TABLE employee (
  id INTEGER PRIMARY KEY, first_name TEXT NOT NULL, last_name TEXT NOT NULL, email TEXT NOT NULL UNIQUE, title TEXT NOT NULL,
  department TEXT NOT NULL, location TEXT NOT NULL, manager INTEGER, hired TEXT NOT NULL, phone TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'active', is_hr INTEGER NOT NULL DEFAULT 0, allowance REAL NOT NULL DEFAULT 25
);
CREATE TABLE pay (employee INTEGER NOT NULL, amount REAL NOT NULL, currency TEXT NOT NULL, since TEXT NOT NULL);
CREATE TABLE time_off (
  id INTEGER PRIMARY KEY, employee INTEGER NOT NULL, kind TEXT NOT NULL, start TEXT NOT NULL, end TEXT NOT NULL,
  days REAL NOT NULL, status TEXT NOT NULL, note TEXT NOT NULL, decided_by INTEGER, created TEXT NOT NULL
);
CREATE INDEX time_off_employee ON time_off (employee, start);
"""
_MAX_DEPTH = 50
_PHOTOS = "https://api.bamboohr.com/api/gateway.php/company/v1/employees"
_PHOTO_NOTE = "**Note:** This URL requires authentication with your BambooHR API key to access."
_CHANGEABLE = ("title", "department", "location", "phone", "manager", "status")
_DAY = re.compile(r"\d{4}-\d\d-\d\d\Z")


def _missing_parameters(tool: RecordedTool, issues: Sequence[ArgumentIssue]) -> str:
    """The public server's words for missing arguments."""
    words = {
        "bamboo_find_employee": "Missing required parameter: query. Provide employee name, email, or ID to search for.",
        "bamboo_team_info": "Missing required parameter: department. Provide department name to get team roster for.",
        "bamboo_time_off_requests": (
            "Missing required parameters: start_date and end_date (YYYY-MM-DD format). Optional status filter: approved, denied,"
            " pending, all."
        ),
        "bamboo_get_employee_photo": ("Missing required parameter: employee_id. Use bamboo_find_employee to get the ID first."),
    }
    return words.get(tool.name) or f"Error: {issues[0].path[0]} must be a {issues[0].expected}"


DIRECTORY = App(
    "directory",
    schema=_SCHEMA,
    server=RecordedServer.read("bamboohr"),
    word_issues=_missing_parameters,
)


# -- reading, as the public server -------------------------------------------------------------------------------------


@DIRECTORY.tool
def _bamboo_find_employee(app: LiveApp, query: str) -> str:
    wanted = query.lower()
    for row in app.rows("SELECT * FROM employee WHERE status = 'active' ORDER BY id"):
        name = f"{row['first_name']} {row['last_name']}"
        if query.strip() and (wanted in name.lower() or wanted in row["email"] or str(row["id"]) == query):
            lines = (
                f"Email: {row['email']}\nJob Title: {row['title'] or 'Not available'}"
                f"\nDepartment: {row['department'] or 'Not available'}\nEmployee ID: {row['id']}"
            )
            return f"**{name}**\n{lines}"
    if not query.strip():
        raise ToolError("Missing required parameter: query. Provide employee name, email, or ID to search for.")
    return f'No employee found matching "{query}"'


@DIRECTORY.tool
def _bamboo_team_info(app: LiveApp, department: str) -> str:
    if not department.strip():
        raise ToolError("Missing required parameter: department. Provide department name to get team roster for.")
    rows = app.rows(
        "SELECT * FROM employee WHERE status = 'active' AND instr(lower(department), ?) ORDER BY id", department.lower()
    )
    if not rows:
        return f'No employees found in department "{department}"'
    lines = "\n".join(f"• **{row['first_name']} {row['last_name']}** - {row['title']} ({row['email']})" for row in rows)
    return f"**{department} Team ({len(rows)} employees)**\n\n{lines}"


@DIRECTORY.tool
def _bamboo_list_departments(app: LiveApp) -> str:
    rows = app.rows(
        "SELECT department, count(*) AS number FROM employee WHERE status = 'active' AND department != '' GROUP BY department"
        " ORDER BY department"
    )
    if not rows:
        return "No departments found in employee data."
    total = sum(row["number"] for row in rows)
    lines = "\n".join(
        f"• **{row['department']}** - {row['number']} employees ({100 * row['number'] / total:.1f}%)" for row in rows
    )
    counts = (
        f"- Total Departments: {len(rows)}\n- Total Employees: {total}\n- Average Department Size: {round(total / len(rows))}"
    )
    return f"**Available Departments ({len(rows)}):**\n\n{lines}\n\n{counts}"


@DIRECTORY.tool
def _bamboo_whos_out(app: LiveApp, start_date: str | None = None, end_date: str | None = None) -> str:
    start = start_date or app.at[:10]
    end = end_date or start
    _require_days(start, end)
    rows = _time_off_between(app, start, end, "approved")
    head = f"**Who's Out: {start} to {end}**\n\n"
    lines = [f"• **{row['name']}** ({row['start']} to {row['end']})" for row in rows]
    return head + ("\n".join(lines) or "No one is scheduled to be out during this period.")


@DIRECTORY.tool
def _bamboo_time_off_requests(app: LiveApp, start_date: str, end_date: str, status: str | None = None) -> str:
    _require_days(start_date, end_date)
    rows = _time_off_between(app, start_date, end_date, None if status in {None, "", "all"} else status)
    head = f"**Time-Off Requests: {start_date} to {end_date}**\n\n"
    lines = [f"[{row['status'].upper()}]: **{row['name']}** - {row['start']} to {row['end']} ({row['kind']})" for row in rows]
    return head + ("\n".join(lines) or "No time-off requests found for this period.")


def _time_off_between(app: LiveApp, start: str, end: str, status: str | None) -> list[dict[str, Any]]:
    return app.rows(
        "SELECT time_off.*, first_name || ' ' || last_name AS name FROM time_off JOIN employee ON employee.id = time_off.employee"
        " WHERE start <= ?2 AND end >= ?1 AND (?3 IS NULL OR time_off.status = ?3) ORDER BY start, time_off.id",
        start, end, status,
    )  # fmt: skip


def _require_days(*days: str) -> None:
    for day in days:
        if not _is_day(day):
            raise ToolError(f"ERROR: **API Request Failed**\n\nStatus: 400\nMessage: invalid date `{day[:40]}`; use YYYY-MM-DD")


def _is_day(text: str) -> bool:
    try:
        return bool(_DAY.match(text)) and 1 < date.fromisoformat(text).year < 9000
    except ValueError:
        return False


@DIRECTORY.tool
def _bamboo_get_employee_photo(app: LiveApp, employee_id: str) -> str:
    row = app.one("SELECT * FROM employee WHERE id = ?", employee_id)
    if row is None:
        return (
            f'ERROR: **Employee Not Found**\n\nEmployee ID "{employee_id}" does not exist.\n\n'
            "- Use `bamboo_find_employee` to search for the correct employee\n- Verify the employee ID is correct\n"
            "- Check if the employee is still active in the system"
        )
    name = f"{row['first_name']} {row['last_name']}"
    about = f"Employee: {name} (ID: {employee_id})\nPhoto URL: {_PHOTOS}/{employee_id}/photo"
    return f"**Employee Photo Available**\n\n{about}\n\n{_PHOTO_NOTE}"


# -- own tools ---------------------------------------------------------------------------------------------------------


def _employee(app: LiveApp, number: int) -> dict[str, Any]:
    row = app.one("SELECT * FROM employee WHERE id = ?", number)
    if row is None:
        raise ToolError(f"There is no employee {number}. Use bamboo_find_employee to get an id.")
    return row


def acting_employee(app: LiveApp) -> dict[str, Any]:
    """The record of the one who acts; `ToolError` if there is none."""
    row = app.one("SELECT * FROM employee WHERE email = ?", app.actor)
    if row is None:
        raise ToolError("You have no employee record, so you cannot use this tool.")
    return row


def is_above(app: LiveApp, manager: int, employee: dict[str, Any]) -> bool:
    """True if the manager is above the employee, at any distance."""
    above = employee["manager"]
    for _ in range(_MAX_DEPTH):
        if above is None:
            return False
        if above == manager:
            return True
        above = app.value("SELECT manager FROM employee WHERE id = ?", above)
    return False


@DIRECTORY.tool
def hr_get_employee(app: LiveApp, employee_id: int) -> dict[str, Any]:
    """The profile of an employee: job, manager, direct reports, hire date. Pay is shown to the person, the managers above and HR.

    employee_id: from bamboo_find_employee
    """
    row = _employee(app, employee_id)
    actor = app.one("SELECT * FROM employee WHERE email = ?", app.actor)
    reports = app.rows("SELECT id FROM employee WHERE manager = ? AND status = 'active' ORDER BY id", employee_id)
    shown: dict[str, Any] = {
        "id": row["id"],
        "name": f"{row['first_name']} {row['last_name']}",
        "email": row["email"],
        "title": row["title"],
        "department": row["department"],
        "location": row["location"],
        "phone": row["phone"],
        "hired": row["hired"],
        "status": row["status"],
        "manager_id": row["manager"],
        "report_ids": [each["id"] for each in reports],
    }
    if actor and (actor["id"] == employee_id or actor["is_hr"] or is_above(app, actor["id"], row)):
        columns = "SELECT amount, currency, since FROM pay WHERE employee = ? ORDER BY since"
        shown["pay"] = app.rows(columns, employee_id)
    return shown


@DIRECTORY.tool
def hr_time_off_balance(app: LiveApp, employee_id: int) -> dict[str, Any]:
    """Days of vacation of an employee this year: allowed, taken or approved, requested, and left.

    employee_id: from bamboo_find_employee
    """
    row = _employee(app, employee_id)
    actor = acting_employee(app)
    if not (actor["id"] == employee_id or actor["is_hr"] or is_above(app, actor["id"], row)):
        raise ToolError("Only the person, the managers above and HR can see a balance.")
    return _balance(app, row)


def _balance(app: LiveApp, employee: dict[str, Any]) -> dict[str, Any]:
    year = app.at[:4]
    used = {
        row["status"]: row["days"]
        for row in app.rows(
            "SELECT status, sum(days) AS days FROM time_off WHERE employee = ? AND kind = 'Vacation' AND substr(start, 1, 4) = ?"
            " GROUP BY status",
            employee["id"], year,
        )
    }  # fmt: skip
    approved, pending = used.get("approved", 0.0), used.get("pending", 0.0)
    left = employee["allowance"] - approved
    return {"year": int(year), "allowed": employee["allowance"], "approved": approved, "pending": pending, "left": left}


@DIRECTORY.tool(takes_s=60)
def hr_request_time_off(
    app: LiveApp,
    kind: Literal["Vacation", "Sick", "Parental", "Unpaid"],
    start: str,
    end: str,
    note: str = "",
    employee_id: int | None = None,
) -> dict[str, Any]:
    """Request time off, for yourself or, as HR, for another employee. Weekends do not count.

    kind: the kind of leave
    start: first day, YYYY-MM-DD
    end: last day, YYYY-MM-DD
    note: for whoever decides
    employee_id: for whom; yourself if left out
    """
    actor = acting_employee(app)
    row = _employee(app, employee_id) if employee_id is not None else actor
    if row["id"] != actor["id"] and not actor["is_hr"]:
        raise ToolError("Only HR can request time off for another employee.")
    if not (_is_day(start) and _is_day(end)) or end < start:
        raise ToolError(f"The days are {start[:40]} to {end[:40]}; give the first and the last day as YYYY-MM-DD.")
    days = workdays(start, end)
    if days == 0:
        raise ToolError("There is no workday between these days.")
    if app.one(
        "SELECT 1 FROM time_off WHERE employee = ? AND status != 'denied' AND start <= ? AND end >= ?", row["id"], end, start
    ):
        raise ToolError("There is already a request for some of these days.")
    if kind == "Vacation" and days > _balance(app, row)["left"]:
        raise ToolError(f"{days} days are requested, and {_balance(app, row)['left']:g} are left.")
    number = app.insert(
        "time_off", employee=row["id"], kind=kind, start=start, end=end, days=days, status="pending", note=note, created=app.at
    )
    return {"request_id": number, "status": "pending", "days": days}


def workdays(start: str, end: str) -> int:
    """Days from one to another, both included, without weekends."""
    first, last = date.fromisoformat(start), date.fromisoformat(end)
    whole, rest = divmod((last - first).days + 1, 7)
    return whole * 5 + sum((first + timedelta(days=day)).weekday() < 5 for day in range(rest))


@DIRECTORY.tool
def hr_decide_time_off(app: LiveApp, request_id: int, decision: Literal["approved", "denied"], note: str = "") -> dict[str, Any]:
    """Approve or deny a request for time off. For the managers above the employee, and HR.

    request_id: from hr_list_time_off
    decision: what you decide
    note: why, for the employee
    """
    actor = acting_employee(app)
    request = app.one("SELECT * FROM time_off WHERE id = ?", request_id)
    if request is None:
        raise ToolError(f"There is no request {request_id}.")
    employee = _employee(app, request["employee"])
    if not (actor["is_hr"] or is_above(app, actor["id"], employee)) or employee["id"] == actor["id"]:
        raise ToolError("Only the managers above the employee and HR can decide this request, and not for themselves.")
    if request["status"] != "pending":
        raise ToolError(f"Request {request_id} is already {request['status']}.")
    joined = "\n".join(filter(None, [request["note"], note]))
    app.run("UPDATE time_off SET status = ?, decided_by = ?, note = ? WHERE id = ?", decision, actor["id"], joined, request_id)
    return {"request_id": request_id, "status": decision}


@DIRECTORY.tool
def hr_list_time_off(
    app: LiveApp, employee_id: int | None = None, status: Literal["pending", "approved", "denied"] | None = None
) -> list[dict[str, Any]]:
    """Requests for time off that you may see: your own, those of people below you, and as HR all of them.

    employee_id: only of this employee
    status: only with this status
    """
    actor = acting_employee(app)
    rows = app.rows(
        "SELECT * FROM time_off WHERE (?1 IS NULL OR employee = ?1) AND (?2 IS NULL OR status = ?2) ORDER BY start, id",
        employee_id,
        status,
    )
    people = {row["id"]: row for row in app.rows("SELECT * FROM employee")}
    return [
        row
        for row in rows
        if actor["is_hr"] or row["employee"] == actor["id"] or is_above(app, actor["id"], people[row["employee"]])
    ]


@DIRECTORY.tool
def hr_update_employee(
    app: LiveApp, employee_id: int, field: Literal["title", "department", "location", "phone", "manager", "status"], value: str
) -> dict[str, Any]:
    """Change one field of an employee's record. For HR only.

    employee_id: whose record
    field: what to change
    value: the new value; for `manager` an employee's id, for `status` `active` or `inactive`
    """
    if not acting_employee(app)["is_hr"]:
        raise ToolError("Only HR can change employee records.")
    _employee(app, employee_id)
    stored: Any = value
    if field == "manager":
        if not value.isdecimal() or int(value[:9]) == employee_id:
            raise ToolError(f"`{value[:40]}` cannot be the manager; give the id of another employee.")
        stored = _employee(app, int(value[:9]))["id"]
        if is_above(app, employee_id, _employee(app, stored)):
            raise ToolError("That employee is below this one, and cannot be the manager.")
    if field == "status" and value not in {"active", "inactive"}:
        raise ToolError("The status is `active` or `inactive`.")
    assert field in _CHANGEABLE
    app.run(f"UPDATE employee SET {field} = ? WHERE id = ?", stored, employee_id)  # noqa: S608 - one of a few constants
    return {"employee_id": employee_id, field: stored}
