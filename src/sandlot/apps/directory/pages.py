"""The pages of the HR directory, for agents that use a browser: people, profiles, time off. No JavaScript."""

from pathlib import Path
from typing import Any

from sandlot.apps.directory.tools import DIRECTORY, acting_employee, is_above
from sandlot.apps.live import LiveApp
from sandlot.apps.page_tools import PageTools, lines, listed, number_of
from sandlot.apps.pages import PageRequest, PageResponse, render
from sandlot.core.errors import ToolError
from sandlot.core.types import Json

_HERE = Path(__file__).parent / "templates"
_TOOLS = PageTools(DIRECTORY, r"\A(ERROR: \*\*[\w ]+\*\*\s+Status: \d+\s+Message: )")
_PAGE = 50
_KINDS = [(each, each) for each in ("Vacation", "Sick", "Parental", "Unpaid")]
_FIELDS = ("title", "department", "location", "phone", "manager", "status")


def _actor(app: LiveApp) -> Json | None:
    """The record of the one who acts; None for someone who does not work here."""
    return app.one("SELECT * FROM employee WHERE email = ?", app.actor)


def _page(app: LiveApp, template: str, **values: Any) -> PageResponse:
    me = _actor(app)
    return render(_HERE, template, actor=app.actor, me=me, is_hr=bool(me and me["is_hr"]), **values)


def _names(app: LiveApp) -> dict[int, str]:
    return {row["id"]: f"{row['first_name']} {row['last_name']}" for row in app.rows("SELECT * FROM employee")}


@DIRECTORY.page("GET", "/")
def _people(app: LiveApp, request: PageRequest) -> PageResponse:
    query, department = request.query.get("q", "").strip().lower(), request.query.get("department", "")
    rows = app.rows("SELECT * FROM employee WHERE status = 'active' ORDER BY last_name, first_name, id")
    found = [
        row
        for row in rows
        if query in f"{row['first_name']} {row['last_name']} {row['email']} {row['title']}".lower()
        and department in {"", row["department"]}
    ]
    departments = sorted({row["department"] for row in rows if row["department"]})
    names, shown = _names(app), listed(found, request, _PAGE)
    return _page(
        app,
        "people.html",
        found=shown,
        query=query,
        department=department,
        departments=departments,
        names=names,
        total=len(found),
    )


@DIRECTORY.page("GET", "/employee/{number}")
def _employee(app: LiveApp, _request: PageRequest, number: str) -> PageResponse:
    shown = _TOOLS.do(app, "hr_get_employee", employee_id=number_of(number))
    me, row = _actor(app), app.one("SELECT * FROM employee WHERE id = ?", number_of(number)) or {}
    close = me is not None and (me["id"] == row["id"] or me["is_hr"] or is_above(app, me["id"], row))
    balance = _TOOLS.do(app, "hr_time_off_balance", employee_id=row["id"]) if close else None
    away: list[Json] = _TOOLS.do(app, "hr_list_time_off", employee_id=row["id"]) if close else []
    return _page(app, "employee.html", person={"pay": None} | shown, names=_names(app), balance=balance, away=away)


@DIRECTORY.page("GET", "/employee/{number}/edit")
def _edit_form(app: LiveApp, _request: PageRequest, number: str) -> PageResponse:
    row = app.one("SELECT * FROM employee WHERE id = ?", number_of(number))
    if row is None or not acting_employee(app)["is_hr"]:
        raise ToolError("Only HR can change employee records.")
    others = [(each, name) for each, name in _names(app).items() if each != row["id"]]
    return _page(app, "edit.html", row=row, others=others)


@DIRECTORY.page("POST", "/employee/{number}/edit")
def _edit(app: LiveApp, request: PageRequest, number: str) -> PageResponse:
    """Only what differs is written."""
    row = app.one("SELECT * FROM employee WHERE id = ?", number_of(number)) or {}
    for field in _FIELDS:
        given = request.form.get(field)
        if given is not None and given != str(row.get(field) or ""):
            _TOOLS.do(app, "hr_update_employee", employee_id=number_of(number), field=field, value=given)
    return PageResponse.redirect(f"/employee/{number}")


# -- time off -----------------------------------------------------------------------------------------------------------


@DIRECTORY.page("GET", "/time-off")
def _time_off(app: LiveApp, request: PageRequest) -> PageResponse:
    status = request.query.get("status", "pending")
    chosen = status if status in {"pending", "approved", "denied"} else None
    rows, me = _TOOLS.do(app, "hr_list_time_off", status=chosen), acting_employee(app)
    people = {row["id"]: row for row in app.rows("SELECT * FROM employee")}
    may = [
        row["id"]
        for row in rows
        if row["employee"] != me["id"] and (me["is_hr"] or is_above(app, me["id"], people[row["employee"]]))
    ]
    balance = _TOOLS.do(app, "hr_time_off_balance", employee_id=me["id"])
    found = listed(rows, request, _PAGE)
    return _page(app, "time_off.html", found=found, status=status, names=_names(app), may=may, balance=balance)


@DIRECTORY.page("GET", "/time-off/new")
def _request_form(app: LiveApp, _request: PageRequest) -> PageResponse:
    me = acting_employee(app)
    people = list(_names(app).items()) if me["is_hr"] else []
    return _page(app, "request.html", kinds=_KINDS, people=people)


@DIRECTORY.page("POST", "/time-off/new")
def _request(app: LiveApp, request: PageRequest) -> PageResponse:
    form = request.form
    _TOOLS.do(
        app,
        "hr_request_time_off",
        kind=form.get("kind", ""),
        start=form.get("start", "").strip(),
        end=form.get("end", "").strip(),
        note=lines(request, "note"),
        employee_id=number_of(form["employee"]) if form.get("employee") else None,
    )
    return PageResponse.redirect("/time-off")


@DIRECTORY.page("POST", "/time-off/{number}")
def _decide(app: LiveApp, request: PageRequest, number: str) -> PageResponse:
    decision, note = request.form.get("decision", ""), request.form.get("note", "")
    _TOOLS.do(app, "hr_decide_time_off", request_id=number_of(number), decision=decision, note=note)
    return PageResponse.redirect("/time-off")


@DIRECTORY.page("GET", "/whos-out")
def _whos_out(app: LiveApp, request: PageRequest) -> PageResponse:
    start = request.query.get("start") or app.at[:10]
    end = request.query.get("end") or start
    shown = _TOOLS.do(app, "bamboo_whos_out", start_date=start, end_date=end)
    rows = shown.partition("\n\n")[2].replace("**", "").replace("\u2022 ", "").splitlines()
    return _page(app, "whos_out.html", start=start, end=end, rows=rows)
