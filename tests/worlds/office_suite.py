"""A small firm in seven apps, for tests of their pages. What people wrote can be hostile: `HOSTILE` is in every text of it."""

from sandlot.apps import (
    ACCOUNTING,
    CODE,
    CRM,
    DIRECTORY,
    FILES,
    TICKETS,
    WIKI,
    LiveApps,
    load_accounting,
    load_code,
    load_crm,
    load_directory,
    load_files,
    load_tickets,
    load_wiki,
)

ADA, BOB, EVE = "ada@corp.example", "bob@corp.example", "eve@corp.example"
NAMES = {ADA: ("Ada", "Hale"), BOB: ("Bob", "Ward"), EVE: ("Eve", "Lin")}
SUITE = [TICKETS, WIKI, CRM, ACCOUNTING, FILES, CODE, DIRECTORY]
HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>\"'><a href='javascript:alert(3)'>x</a>{{ 7*7 }}"
    "[y](javascript:alert(4))![z](http://evil.example/z)"
)


def fill_suite(apps: LiveApps, mark: str = "") -> None:
    """Fill all apps; `mark` is added to what people wrote."""
    people = [{"display_name": " ".join(name), "email": email} for email, name in NAMES.items()]
    _fill_tickets(apps, people, mark)
    _fill_wiki(apps, people, mark)
    _fill_crm(apps, mark)
    _fill_books(apps, mark)
    texts = {
        f"/files/finance/budget{'<b>' if mark else ''}.csv": f"item,amount\nrent,1200\npower,{mark or 90}\n",
        "/files/finance/plan.txt": f"The plan for spring.\n{mark}\n",
        "/files/board/minutes.txt": "Secret minutes.\n",
        "/files/logo.png": b"\x89PNG\r\n\0\0",
    }
    load_files(apps.files, texts, access={"/files/board": {EVE: "write"}, "/files/finance": {ADA: "write", "*": "read"}})
    _fill_code(apps, mark)
    employees = [
        {"email": EVE, "first_name": "Eve", "last_name": f"Lin{mark}", "title": "Director", "department": "Board", "pay": 9000},
        {
            "email": ADA,
            "first_name": "Ada",
            "last_name": "Hale",
            "title": f"Lead{mark}",
            "department": "Finance",
            "manager": EVE,
            "pay": 5000,
        },
        {
            "email": BOB,
            "first_name": "Bob",
            "last_name": "Ward",
            "title": "Clerk",
            "department": "Finance",
            "manager": ADA,
            "pay": 3100,
        },
    ]
    away = [
        {
            "employee": BOB,
            "kind": "Vacation",
            "start": "2026-02-02",
            "end": "2026-02-06",
            "status": "pending",
            "note": f"Ski{mark}",
        }
    ]
    load_directory(apps.directory, employees=employees, time_off=away)


def _fill_tickets(apps: LiveApps, people: list[dict[str, str]], mark: str) -> None:
    said = [{"author": BOB, "body": f"It happens daily.{mark}", "created": "2026-01-03T10:00:00Z"}]
    issues = [
        {"key": "OPS-1", "summary": f"Printer is down{mark}", "description": f"On floor 2.{mark}", "type": "Bug", "reporter": BOB,
         "assignee": ADA, "priority": "High", "labels": ["printer"], "components": ["Hardware"], "comments": said},
        {"key": "OPS-2", "summary": "Order toner", "type": "Task", "reporter": ADA, "links": [{"type": "Blocks", "to": "OPS-1"}]},
        {"key": "SEC-1", "summary": "Board only", "reporter": EVE},
    ]  # fmt: skip
    projects = [
        {"key": "OPS", "name": f"Operations{mark}", "components": ["Hardware"], "versions": [{"name": "1.0"}]},
        {"key": "SEC", "name": "Security", "permissions": {EVE: "write"}},
    ]
    load_tickets(apps.tickets, {"people": people, "projects": projects, "issues": issues})


def _fill_wiki(apps: LiveApps, people: list[dict[str, str]], mark: str) -> None:
    said = [{"author": BOB, "body": f"Is this current?{mark}", "created": "2026-01-03T10:00:00Z"}]
    old = [{"content": f"# Old\n{mark}", "author": BOB, "at": "2025-12-01T10:00:00Z", "message": f"first{mark}"}]
    table = f"# Welcome\n\n| a | b |\n|---|---|\n| 1 | {mark or 2} |\n\n{mark}"
    pages = [
        {"space": "HB", "title": f"Handbook{mark}", "content": table,
         "author": ADA, "labels": ["guide"], "comments": said, "versions": old},
        {"space": "HB", "title": "Expenses", "content": "Keep **receipts**.", "author": ADA, "parent": f"Handbook{mark}"},
        {"space": "HB", "title": "Salaries", "content": "Secret sums.", "author": EVE, "read": [EVE]},
    ]  # fmt: skip
    spaces = [{"key": "HB", "name": f"Handbook space{mark}"}, {"key": "BD", "name": "Board", "permissions": {EVE: "write"}}]
    load_wiki(apps.wiki, {"people": people, "spaces": spaces, "pages": pages})


def _fill_crm(apps: LiveApps, mark: str) -> None:
    seed = {
        "owners": [{"email": email, "first_name": name[0], "last_name": name[1]} for email, name in NAMES.items()],
        "permissions": {ADA: "all", BOB: "own", EVE: "none"},
        "companies": [
            {"ref": "acme", "name": f"Acme{mark}", "domain": "acme.example", "owner": ADA, "description": f"Buys a lot.{mark}"}
        ],
        "contacts": [
            {
                "ref": "zoe",
                "firstname": f"Zoe{mark}",
                "lastname": "Kern",
                "email": "zoe@acme.example",
                "owner": ADA,
                "with": ["acme"],
            }
        ],
        "deals": [
            {
                "ref": "deal",
                "dealname": f"Chairs{mark}",
                "amount": "1200",
                "dealstage": "contractsent",
                "owner": ADA,
                "with": ["acme", "zoe"],
            }
        ],
        "notes": [{"hs_note_body": f"Wants blue ones.{mark}", "owner": ADA, "with": ["deal"]}],
        "tasks": [{"hs_task_subject": f"Call Zoe{mark}", "hs_task_status": "NOT_STARTED", "owner": ADA, "with": ["deal"]}],
    }
    load_crm(apps.crm, seed)


def _fill_books(apps: LiveApps, mark: str) -> None:
    line = {"description": f"Chairs{mark}", "quantity": "2", "unit_amount": "100.00", "account": "200", "tax_type": "OUTPUT2"}
    power = {"description": "Power", "unit_amount": "210.00", "account": "445", "tax_type": "NONE"}
    sale = {"type": "ACCREC", "contact": f"Acme{mark}", "date": "2026-01-02", "reference": f"PO 7{mark}", "lines": [line]}
    bill = {
        "type": "ACCPAY",
        "contact": "Power Ltd",
        "date": "2026-01-02",
        "reference": f"P-7{mark}",
        "status": "DRAFT",
        "lines": [power],
    }
    credit = {"type": "ACCRECCREDIT", "contact": f"Acme{mark}", "date": "2026-01-03", "status": "DRAFT", "lines": [line]}
    paid = {"type": "SPEND", "account": "090", "contact": "Power Ltd", "date": "2026-01-03"}
    spent = paid | {"reference": f"x{mark}", "lines": [power]}
    seed = {
        "organisation": {"name": f"Corp{mark}"},
        "roles": {ADA: "adviser", BOB: "read_only"},
        "contacts": [{"name": f"Acme{mark}", "email": "zoe@acme.example"}, {"name": "Power Ltd"}],
        "invoices": [sale, bill],
        "credit_notes": [credit],
        "bank_transactions": [spent],
        "journals": [
            {"narration": f"Accrual{mark}", "date": "2026-01-04", "status": "POSTED",
             "lines": [{"account": "445", "amount": 50, "description": f"d{mark}"}, {"account": "200", "amount": -50}]}
        ],
    }  # fmt: skip
    load_accounting(apps.accounting, seed)


def _fill_code(apps: LiveApps, mark: str) -> None:
    commits = [
        {
            "branch": "main",
            "message": f"Begin{mark}",
            "author": "bob",
            "files": {"README.md": f"# Shop\n{mark}", "src/tax.py": "RATE = 19\n"},
        },
        {
            "branch": "fix",
            "from": "main",
            "message": "Set the rate",
            "author": "bob",
            "files": {"src/tax.py": f"RATE = 20\n# {mark}\n"},
        },
    ]
    repositories = [
        {"owner": "corp", "name": "shop", "description": f"The shop{mark}", "commits": commits},
        {"owner": "corp", "name": "vault", "private": True, "collaborators": {"eve": "admin"}, "commits": [
            {"branch": "main", "message": "Begin", "author": "eve", "files": {"key.txt": "secret"}}]},
    ]  # fmt: skip
    said = [{"user": "bob", "body": f"Same here.{mark}", "created": "2026-01-03T10:00:00Z"}]
    issue = {
        "repository": "corp/shop",
        "title": f"Wrong rate{mark}",
        "body": f"It is 20.{mark}",
        "user": "bob",
        "labels": ["bug"],
        "comments": said,
    }
    users = [{"login": name[0].lower(), "name": " ".join(name), "email": email} for email, name in NAMES.items()]
    load_code(apps.code, {"users": users, "repositories": repositories, "issues": [issue]})
