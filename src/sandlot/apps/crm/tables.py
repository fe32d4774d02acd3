"""The tables of the CRM: objects with properties, associations, owners; and what every HubSpot starts with.

`contact`, `company`, `deal`, `note` and `task` are views with the usual properties as columns: what most checks want to ask.
"""

import json

_SEARCHED = (
    "'firstname', 'lastname', 'email', 'phone', 'company', 'name', 'domain', 'website', 'dealname', 'description', 'dealtype',"
    " 'subject', 'content', 'hs_note_body', 'hs_task_subject', 'hs_task_body', 'hs_email', 'hs_given_name', 'hs_family_name'"
)


def _reindex(row: str) -> str:
    return (
        f"DELETE FROM object_words WHERE rowid = {row}.object; INSERT INTO object_words (rowid, text) SELECT {row}.object,"
        f" coalesce(group_concat(value, ' '), '') FROM property_value WHERE object = {row}.object AND name IN ({_SEARCHED});"
    )


def _view(name: str, kind: str, properties: str) -> str:
    columns = ", ".join(f"max(CASE WHEN v.name = '{each}' THEN v.value END) AS {each}" for each in properties.split())
    return (
        f"CREATE VIEW {name} AS SELECT o.id, o.created, o.updated, o.archived, {columns}"
        f" FROM object o LEFT JOIN property_value v ON v.object = o.id WHERE o.type = '{kind}' GROUP BY o.id;"
    )


_COMPANY = "name domain industry city country phone annualrevenue numberofemployees lifecyclestage hubspot_owner_id"
_DEAL = "dealname amount dealstage pipeline closedate dealtype hs_is_closed_won closed_lost_reason hubspot_owner_id"
SCHEMA = f"""
CREATE TABLE portal (id INTEGER NOT NULL, ui_domain TEXT NOT NULL, currency TEXT NOT NULL, time_zone TEXT NOT NULL);
CREATE TABLE owner (id INTEGER PRIMARY KEY, user_id INTEGER NOT NULL, email TEXT NOT NULL UNIQUE, first_name TEXT NOT NULL,
  last_name TEXT NOT NULL);
-- what a person may change: all, own (objects that they own) or none. Without rows, everyone may change all.
CREATE TABLE permission (email TEXT NOT NULL UNIQUE, edit TEXT NOT NULL);
-- type: contacts, companies, deals, tickets, products, line_items, users, notes, tasks, meetings, calls, emails
CREATE TABLE object (id INTEGER PRIMARY KEY, type TEXT NOT NULL, created TEXT NOT NULL, updated TEXT NOT NULL,
  archived INTEGER NOT NULL DEFAULT 0);
CREATE INDEX object_type ON object (type);
CREATE TABLE property_value (object INTEGER NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, UNIQUE (object, name));
CREATE INDEX property_named ON property_value (name, value);
CREATE TABLE property_change (object INTEGER NOT NULL, name TEXT NOT NULL, value TEXT NOT NULL, at TEXT NOT NULL,
  by TEXT NOT NULL);
CREATE TABLE property (type TEXT NOT NULL, name TEXT NOT NULL, label TEXT NOT NULL, kind TEXT NOT NULL DEFAULT 'string',
  field TEXT NOT NULL DEFAULT 'text', group_name TEXT NOT NULL, description TEXT NOT NULL DEFAULT '',
  options TEXT NOT NULL DEFAULT '[]', read_only INTEGER NOT NULL DEFAULT 0, hidden INTEGER NOT NULL DEFAULT 0,
  UNIQUE (type, name));
CREATE TABLE association_type (from_type TEXT NOT NULL, to_type TEXT NOT NULL, type_id INTEGER NOT NULL, label TEXT,
  reverse_id INTEGER NOT NULL, UNIQUE (from_type, to_type, type_id));
-- one row for each direction
CREATE TABLE association (from_id INTEGER NOT NULL, to_id INTEGER NOT NULL, type_id INTEGER NOT NULL, to_type TEXT NOT NULL,
  UNIQUE (from_id, to_id, type_id));
CREATE VIRTUAL TABLE object_words USING fts5(text);
CREATE TRIGGER words_insert AFTER INSERT ON property_value BEGIN {_reindex("new")} END;
CREATE TRIGGER words_update AFTER UPDATE ON property_value BEGIN {_reindex("new")} END;
CREATE TRIGGER words_delete AFTER DELETE ON property_value BEGIN {_reindex("old")} END;
{_view("contact", "contacts", "email firstname lastname phone jobtitle company lifecyclestage hs_lead_status hubspot_owner_id")}
{_view("company", "companies", _COMPANY)}
{_view("deal", "deals", _DEAL)}
{_view("note", "notes", "hs_note_body hs_timestamp hubspot_owner_id")}
{_view("task", "tasks", "hs_task_subject hs_task_body hs_task_status hs_task_priority hs_timestamp hubspot_owner_id")}
INSERT INTO portal VALUES (48213077, 'app.hubspot.com', 'EUR', 'UTC');
"""

_STAGES = {
    "appointmentscheduled": "Appointment Scheduled",
    "qualifiedtobuy": "Qualified To Buy",
    "presentationscheduled": "Presentation Scheduled",
    "decisionmakerboughtin": "Decision Maker Bought-In",
    "contractsent": "Contract Sent",
    "closedwon": "Closed Won",
    "closedlost": "Closed Lost",
}
_LIFECYCLE = (
    "subscriber",
    "lead",
    "marketingqualifiedlead",
    "salesqualifiedlead",
    "opportunity",
    "customer",
    "evangelist",
    "other",
)
_LEAD = ("NEW", "OPEN", "IN_PROGRESS", "OPEN_DEAL", "UNQUALIFIED", "ATTEMPTED_TO_CONTACT", "CONNECTED", "BAD_TIMING")

PROPERTIES: dict[str, dict[str, tuple[str, str | dict[str, str]]]] = {
    "contacts": {
        "firstname": ("string", "First Name"),
        "lastname": ("string", "Last Name"),
        "email": ("string", "Email"),
        "phone": ("string", "Phone Number"),
        "mobilephone": ("string", "Mobile Phone Number"),
        "company": ("string", "Company Name"),
        "jobtitle": ("string", "Job Title"),
        "website": ("string", "Website URL"),
        "address": ("string", "Street Address"),
        "city": ("string", "City"),
        "state": ("string", "State/Region"),
        "zip": ("string", "Postal Code"),
        "country": ("string", "Country/Region"),
        "lifecyclestage": ("enumeration", dict(zip(_LIFECYCLE, _LIFECYCLE, strict=True))),
        "hs_lead_status": ("enumeration", dict(zip(_LEAD, _LEAD, strict=True))),
    },
    "companies": {
        "name": ("string", "Company name"),
        "domain": ("string", "Company Domain Name"),
        "website": ("string", "Website URL"),
        "industry": ("string", "Industry"),
        "phone": ("string", "Phone Number"),
        "address": ("string", "Street Address"),
        "city": ("string", "City"),
        "state": ("string", "State/Region"),
        "zip": ("string", "Postal Code"),
        "country": ("string", "Country/Region"),
        "annualrevenue": ("number", "Annual Revenue"),
        "numberofemployees": ("number", "Number of Employees"),
        "description": ("string", "Description"),
        "lifecyclestage": ("enumeration", dict(zip(_LIFECYCLE, _LIFECYCLE, strict=True))),
    },
    "deals": {
        "dealname": ("string", "Deal Name"),
        "amount": ("number", "Amount"),
        "closedate": ("datetime", "Close Date"),
        "dealstage": ("enumeration", _STAGES),
        "pipeline": ("enumeration", {"default": "Sales Pipeline"}),
        "dealtype": ("enumeration", {"newbusiness": "New Business", "existingbusiness": "Existing Business"}),
        "description": ("string", "Deal Description"),
        "closed_lost_reason": ("string", "Closed Lost Reason"),
        "closed_won_reason": ("string", "Closed Won Reason"),
        "hs_priority": ("enumeration", {"low": "Low", "medium": "Medium", "high": "High"}),
        "hs_next_step": ("string", "Next Step"),
    },
    "tickets": {
        "subject": ("string", "Ticket name"),
        "content": ("string", "Ticket description"),
        "hs_pipeline": ("enumeration", {"0": "Support Pipeline"}),
        "hs_pipeline_stage": ("enumeration", {"1": "New", "2": "Waiting on contact", "3": "Waiting on us", "4": "Closed"}),
        "hs_ticket_priority": ("enumeration", {"LOW": "Low", "MEDIUM": "Medium", "HIGH": "High", "URGENT": "Urgent"}),
        "hs_resolution": ("string", "Resolution"),
    },
    "products": {
        "name": ("string", "Name"),
        "price": ("number", "Unit price"),
        "hs_sku": ("string", "SKU"),
        "description": ("string", "Product description"),
    },
    "line_items": {
        "name": ("string", "Name"),
        "price": ("number", "Unit price"),
        "quantity": ("number", "Quantity"),
        "amount": ("number", "Net price"),
        "hs_product_id": ("number", "Product ID"),
        "hs_sku": ("string", "SKU"),
    },
    "users": {
        "hs_given_name": ("string", "First Name"),
        "hs_family_name": ("string", "Last Name"),
        "hs_email": ("string", "Email"),
        "hs_job_title": ("string", "Job Title"),
    },
    "notes": {"hs_note_body": ("string", "Note body"), "hs_timestamp": ("datetime", "Activity date")},
    "tasks": {
        "hs_task_subject": ("string", "Task Title"),
        "hs_task_body": ("string", "Task Notes"),
        "hs_task_status": (
            "enumeration",
            {each: each for each in ("NOT_STARTED", "IN_PROGRESS", "WAITING", "COMPLETED", "DEFERRED")},
        ),
        "hs_task_priority": ("enumeration", {each: each for each in ("NONE", "LOW", "MEDIUM", "HIGH")}),
        "hs_task_type": ("enumeration", {each: each for each in ("TODO", "CALL", "EMAIL")}),
        "hs_timestamp": ("datetime", "Due date"),
    },
    "meetings": {
        "hs_meeting_title": ("string", "Meeting name"),
        "hs_meeting_body": ("string", "Meeting description"),
        "hs_meeting_start_time": ("datetime", "Start time"),
        "hs_meeting_end_time": ("datetime", "End time"),
        "hs_timestamp": ("datetime", "Activity date"),
    },
    "calls": {
        "hs_call_title": ("string", "Call Title"),
        "hs_call_body": ("string", "Call notes"),
        "hs_timestamp": ("datetime", "Activity date"),
    },
    "emails": {
        "hs_email_subject": ("string", "Email subject"),
        "hs_email_text": ("string", "Text"),
        "hs_timestamp": ("datetime", "Activity date"),
    },
}
"""The properties of each type of object, with their kind and label, or their options."""

SHOWN = {
    "contacts": ("email", "firstname", "lastname"),
    "companies": ("domain", "name"),
    "deals": ("amount", "closedate", "dealname", "dealstage", "pipeline"),
    "tickets": ("content", "hs_pipeline", "hs_pipeline_stage", "hs_ticket_priority", "subject"),
    "products": ("name", "price"),
    "line_items": ("name", "quantity", "amount"),
    "users": ("hs_email", "hs_given_name", "hs_family_name", "hubspot_owner_id"),
}
"""What is returned of an object if no properties are asked for."""

ASSOCIATIONS: tuple[tuple[str, str, int, int, str | None], ...] = (
    ("contacts", "companies", 279, 280, None),
    ("contacts", "companies", 1, 2, "Primary"),
    ("contacts", "deals", 4, 3, None),
    ("contacts", "tickets", 15, 16, None),
    ("contacts", "contacts", 449, 449, None),
    ("companies", "deals", 342, 341, None),
    ("companies", "deals", 6, 5, "Primary"),
    ("companies", "tickets", 340, 339, None),
    ("companies", "companies", 450, 450, None),
    ("deals", "tickets", 27, 28, None),
    ("deals", "line_items", 19, 20, None),
    ("contacts", "notes", 201, 202, None),
    ("companies", "notes", 189, 190, None),
    ("deals", "notes", 213, 214, None),
    ("tickets", "notes", 227, 228, None),
    ("contacts", "tasks", 203, 204, None),
    ("companies", "tasks", 191, 192, None),
    ("deals", "tasks", 215, 216, None),
    ("tickets", "tasks", 229, 230, None),
    ("contacts", "meetings", 199, 200, None),
    ("companies", "meetings", 187, 188, None),
    ("deals", "meetings", 211, 212, None),
    ("contacts", "calls", 193, 194, None),
    ("companies", "calls", 181, 182, None),
    ("deals", "calls", 205, 206, None),
    ("contacts", "emails", 197, 198, None),
    ("companies", "emails", 185, 186, None),
    ("deals", "emails", 209, 210, None),
)
"""HubSpot's own association types: from, to, its number, the number of the way back, its label."""


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _catalogue() -> str:
    """The properties and association types as SQL."""
    lines: list[str] = []
    common = {
        "hs_object_id": ("number", "Record ID", 1),
        "createdate": ("datetime", "Create Date", 1),
        "hs_lastmodifieddate": ("datetime", "Last Modified Date", 1),
        "hubspot_owner_id": ("enumeration", "Owner", 0),
        "hs_is_closed_won": ("bool", "Is Closed Won", 1),
        "hs_is_closed": ("bool", "Is Deal Closed?", 1),
    }
    for kind, properties in PROPERTIES.items():
        for name, (form, label) in properties.items():
            choices = label if isinstance(label, dict) else {}
            shown = name.removeprefix("hs_").replace("_", " ").title() if isinstance(label, dict) else label
            options = json.dumps([{"label": text, "value": value} for value, text in choices.items()])
            values = [kind, name, shown, form, "select" if choices else "text", f"{kind.rstrip('s')}information", options]
            lines.append(
                "INSERT INTO property (type, name, label, kind, field, group_name, options) VALUES ("
                + ", ".join(map(_quoted, values))
                + ");"
            )
        for name, (form, label, fixed) in common.items():
            if name.startswith("hs_is") and kind != "deals":
                continue
            values = ", ".join(map(_quoted, [kind, name, label, form, "text", f"{kind.rstrip('s')}information"]))
            lines.append(
                f"INSERT INTO property (type, name, label, kind, field, group_name, read_only) VALUES ({values}, {fixed});"
            )
    for one, two, there, back, label in ASSOCIATIONS:
        text = "NULL" if label is None else _quoted(label)
        lines.append(f"INSERT INTO association_type VALUES ('{one}', '{two}', {there}, {text}, {back});")
        if one != two:
            lines.append(f"INSERT INTO association_type VALUES ('{two}', '{one}', {back}, {text}, {there});")
    return "\n".join(lines)


WHOLE_SCHEMA = SCHEMA + _catalogue()
