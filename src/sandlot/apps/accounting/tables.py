"""The tables of the accounting app. Money is whole cents; quantities, unit prices and rates are decimals as text."""

SCHEMA = """
CREATE TABLE organisation (id TEXT NOT NULL, name TEXT NOT NULL, legal_name TEXT NOT NULL, short_code TEXT NOT NULL,
  base_currency TEXT NOT NULL,
  country TEXT NOT NULL, tax_number TEXT, year_end_day INTEGER NOT NULL DEFAULT 31, year_end_month INTEGER NOT NULL DEFAULT 12,
  lock_date TEXT, created TEXT NOT NULL, next_invoice INTEGER NOT NULL DEFAULT 1, next_credit_note INTEGER NOT NULL DEFAULT 1);
-- who may do what: read_only, invoice_only, standard or adviser. Without rows, everyone is an adviser.
CREATE TABLE role (email TEXT NOT NULL UNIQUE, role TEXT NOT NULL);
CREATE TABLE account (id TEXT NOT NULL UNIQUE, code TEXT NOT NULL UNIQUE, name TEXT NOT NULL, type TEXT NOT NULL, status TEXT NOT
  NULL DEFAULT 'ACTIVE',
  description TEXT, tax_type TEXT NOT NULL DEFAULT 'NONE', system TEXT);
CREATE TABLE tax_rate (type TEXT NOT NULL UNIQUE, name TEXT NOT NULL, rate TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'ACTIVE');
CREATE TABLE contact (id TEXT NOT NULL UNIQUE, name TEXT NOT NULL UNIQUE, first_name TEXT, last_name TEXT, email TEXT, phone
  TEXT, address TEXT,
  tax_number TEXT, is_customer INTEGER NOT NULL DEFAULT 0, is_supplier INTEGER NOT NULL DEFAULT 0, status TEXT NOT NULL DEFAULT
  'ACTIVE', updated TEXT NOT NULL);
-- type: ACCREC (a sales invoice) or ACCPAY (a bill); status: DRAFT, SUBMITTED, AUTHORISED, PAID, VOIDED, DELETED
CREATE TABLE invoice (id TEXT NOT NULL UNIQUE, number TEXT NOT NULL, type TEXT NOT NULL, contact TEXT NOT NULL, date TEXT NOT
  NULL, due_date TEXT,
  status TEXT NOT NULL, reference TEXT, subtotal INTEGER NOT NULL, tax INTEGER NOT NULL, total INTEGER NOT NULL, paid INTEGER NOT
  NULL DEFAULT 0,
  credited INTEGER NOT NULL DEFAULT 0, fully_paid_on TEXT, updated TEXT NOT NULL);
CREATE INDEX invoice_contact ON invoice (contact);
CREATE INDEX invoice_number ON invoice (number);
-- type: ACCRECCREDIT or ACCPAYCREDIT
CREATE TABLE credit_note (id TEXT NOT NULL UNIQUE, number TEXT NOT NULL, type TEXT NOT NULL, contact TEXT NOT NULL, date TEXT NOT
  NULL, status TEXT NOT NULL,
  reference TEXT, subtotal INTEGER NOT NULL, tax INTEGER NOT NULL, total INTEGER NOT NULL, allocated INTEGER NOT NULL DEFAULT 0,
  updated TEXT NOT NULL);
CREATE TABLE allocation (id TEXT NOT NULL UNIQUE, credit_note TEXT NOT NULL, invoice TEXT NOT NULL, amount INTEGER NOT NULL, date
  TEXT NOT NULL);
-- type: RECEIVE or SPEND
CREATE TABLE bank_transaction (id TEXT NOT NULL UNIQUE, type TEXT NOT NULL, bank_account TEXT NOT NULL, contact TEXT NOT NULL,
  date TEXT NOT NULL,
  status TEXT NOT NULL, reference TEXT, subtotal INTEGER NOT NULL, tax INTEGER NOT NULL, total INTEGER NOT NULL,
  reconciled INTEGER NOT NULL DEFAULT 0, updated TEXT NOT NULL);
-- the lines of an invoice, a credit note or a bank transaction, in order
CREATE TABLE line (document TEXT NOT NULL, position INTEGER NOT NULL, description TEXT NOT NULL, quantity TEXT NOT NULL,
  unit_amount TEXT NOT NULL,
  account TEXT NOT NULL, tax_type TEXT NOT NULL, item_code TEXT, amount INTEGER NOT NULL, tax INTEGER NOT NULL, UNIQUE (document,
  position));
CREATE TABLE payment (id TEXT NOT NULL UNIQUE, invoice TEXT NOT NULL, account TEXT NOT NULL, amount INTEGER NOT NULL, date TEXT
  NOT NULL, reference TEXT,
  status TEXT NOT NULL, updated TEXT NOT NULL);
CREATE INDEX payment_invoice ON payment (invoice);
CREATE TABLE manual_journal (id TEXT NOT NULL UNIQUE, narration TEXT NOT NULL, date TEXT NOT NULL, status TEXT NOT NULL,
  line_amount_types TEXT NOT NULL,
  url TEXT, cash_basis INTEGER NOT NULL DEFAULT 1, updated TEXT NOT NULL);
CREATE TABLE journal_line (journal TEXT NOT NULL, position INTEGER NOT NULL, amount INTEGER NOT NULL, account TEXT NOT NULL,
  description TEXT, tax_type TEXT,
  tax INTEGER NOT NULL DEFAULT 0, UNIQUE (journal, position));
-- the general ledger: debits are positive, credits negative; the entries of one source add up to 0
CREATE TABLE ledger_entry (source TEXT NOT NULL, kind TEXT NOT NULL, date TEXT NOT NULL, account TEXT NOT NULL, amount INTEGER
  NOT NULL, contact TEXT);
CREATE INDEX ledger_source ON ledger_entry (source);
CREATE INDEX ledger_account ON ledger_entry (account, date);

INSERT INTO account (id, code, name, type, system, description) VALUES
  ('6a0c1f5e-0000-4000-8000-000000000610', '610', 'Accounts Receivable', 'CURRENT', 'DEBTORS', 'Outstanding invoices the company
    has issued'),
  ('6a0c1f5e-0000-4000-8000-000000000800', '800', 'Accounts Payable', 'CURRLIAB', 'CREDITORS', 'Outstanding bills the company has
    received'),
  ('6a0c1f5e-0000-4000-8000-000000000820', '820', 'Sales Tax', 'CURRLIAB', 'GST', 'Tax collected and paid'),
  ('6a0c1f5e-0000-4000-8000-000000000960', '960', 'Retained Earnings', 'EQUITY', 'RETAINEDEARNINGS', 'Profits of earlier years');
INSERT INTO tax_rate (type, name, rate) VALUES ('NONE', 'Tax Exempt', '0'), ('OUTPUT2', '20% (VAT on Income)', '20'),
  ('INPUT2', '20% (VAT on Expenses)', '20'), ('ZERORATEDOUTPUT', 'Zero Rated Income', '0'), ('ZERORATEDINPUT', 'Zero Rated
    Expenses', '0'),
  ('RROUTPUT', '5% (VAT on Income)', '5'), ('RRINPUT', '5% (VAT on Expenses)', '5');
INSERT INTO organisation (id, name, legal_name, short_code, base_currency, country, created)
  VALUES ('6a0c1f5e-0000-4000-8000-000000000001', 'Demo Company', 'Demo Company', '!demo1', 'EUR', 'GB', '2024-01-01');
"""

CLASSES = {
    "BANK": "Assets",
    "CURRENT": "Assets",
    "FIXED": "Assets",
    "INVENTORY": "Assets",
    "NONCURRENT": "Assets",
    "PREPAYMENT": "Assets",
    "CURRLIAB": "Liabilities",
    "LIABILITY": "Liabilities",
    "TERMLIAB": "Liabilities",
    "EQUITY": "Equity",
    "REVENUE": "Revenue",
    "SALES": "Revenue",
    "OTHERINCOME": "Revenue",
    "EXPENSE": "Expenses",
    "DIRECTCOSTS": "Expenses",
    "OVERHEADS": "Expenses",
    "DEPRECIATN": "Expenses",
}
"""Where an account of each type stands in the reports."""
PROFIT = {"Revenue", "Expenses"}
"""What makes up profit; the rest is the balance sheet."""
