"""Every family of tasks: its name, how a job is made, and its rubric."""

from collections.abc import Callable
from random import Random
from typing import Any

from . import budgets, letters, money, records, talks, templates
from .job import Job

Family = tuple[Callable[[Random], Job], list[dict[str, Any]]]
FAMILIES: dict[str, Family] = {
    "budget": (budgets.budget, budgets.BUDGET_RUBRIC),
    "tax": (money.tax, money.TAX_RUBRIC),
    "loan": (money.loan, money.LOAN_RUBRIC),
    "assets": (money.assets, money.ASSETS_RUBRIC),
    "group": (money.group, money.GROUP_RUBRIC),
    "chart": (money.chart, money.CHART_RUBRIC),
    "invoice": (templates.invoice, templates.INVOICE_RUBRIC),
    "repair": (templates.repair, templates.REPAIR_RUBRIC),
    "grades": (templates.grades, templates.GRADES_RUBRIC),
    "bank": (records.bank, records.BANK_RUBRIC),
    "clean": (records.clean, records.CLEAN_RUBRIC),
    "pivot": (records.pivot, records.PIVOT_RUBRIC),
    "hours": (records.hours, records.HOURS_RUBRIC),
    "stock": (records.stock, records.STOCK_RUBRIC),
    "style": (letters.style, letters.STYLE_RUBRIC),
    "review": (letters.review, letters.REVIEW_RUBRIC),
    "manual": (letters.manual, letters.MANUAL_RUBRIC),
    "merge": (letters.merge, letters.MERGE_RUBRIC),
    "minutes": (letters.minutes, letters.MINUTES_RUBRIC),
    "talk": (talks.talk, talks.TALK_RUBRIC),
    "deck": (talks.broken_deck, talks.DECK_RUBRIC),
    "quarter": (talks.quarter, talks.QUARTER_RUBRIC),
}
EACH = 4
