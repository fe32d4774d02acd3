"""Accounting, with the tools of the public Xero server.

Read `ledger.py` first, then `documents.py`; `loading.py` fills the books. Offered is a named subset of the recorded tools:
accounts, contacts, invoices and bills, credit notes, payments, bank transactions, manual journals, reports. Not offered:
payroll, quotes, items, tracking categories.
"""

from sandlot.apps.accounting import entering as entering
from sandlot.apps.accounting import pages as pages
from sandlot.apps.accounting import reports as reports
from sandlot.apps.accounting.ledger import ACCOUNTING as ACCOUNTING
