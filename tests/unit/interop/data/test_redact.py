"""Secrets and personal data are replaced, the same value by the same mark, and the report tells none of them."""

import re

import msgspec
import pytest

from sandlot.core.errors import ConfigError
from sandlot.interop.data.personal import iban_valid, luhn_valid
from sandlot.interop.data.redact import Redactor
from sandlot.interop.data.rows import DataRow, RowProvenance, row_hash

SECRETS = {
    "email": ["ada@example.org", "a.b+c@mail.example.co.uk"],
    "phone": ["+44 20 7946 0958", "+49 (0)30 901820", "(555) 123-4567", "555-123-4567", "+15551234567"],
    "card": ["4111 1111 1111 1111", "5500-0000-0000-0004", "378282246310005"],
    "iban": ["GB82 WEST 1234 5698 7654 32", "DE89370400440532013000", "NO9386011117947"],
    "ssn": ["078-05-1120"],
    "api_key": ["sk-abcdefghijklmnop1234"],
    "service_token": ["ghp_abcdefghijklmnopqrstuvwx", "hf_abcdefghijklmnopqrst"],
    "aws_key": ["AKIAIOSFODNN7EXAMPLE"],
    "login_token": ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.abcdefgh"],
    "private_key": ["-----BEGIN RSA PRIVATE KEY-----\nMIIabc\n-----END RSA PRIVATE KEY-----"],
    "url_password": ["joe:hunter22"],
    "password": ["hunter2secret"],
}
AROUND = {"url_password": "see https://{}@example.org/x", "password": 'config: password = "{}" and so on'}
NONE_OF_THEM = [
    "Order 4111 1111 1111 1112 of 2026-03-04, 12:30:45",
    "version 1.2.3.4, pi is 3.14159265358979323846",
    "GB82 WEST 1234 5698 7654 33 has a wrong checksum",
    "call me maybe @home, a@b, 10 - 20 - 30",
    "2024-01-15 and 1,234,567.89 and ISBN 978-3-16-148410-0",
    "sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "the password is in the safe; the secret of life",
    "f(x) = 3 + 44 20 - 7946",
]


def redacted(*values, **options):
    redactor = Redactor(**options)
    rows = [
        DataRow(value if isinstance(value, dict) else {"text": value}, RowProvenance("a.jsonl", number, ""))
        for number, value in enumerate(values, 1)
    ]
    return [row.value for row in redactor.redact_rows(rows)], redactor.report()


@pytest.mark.parametrize(("kind", "secret"), [(kind, each) for kind, secrets in SECRETS.items() for each in secrets])
def test_each_kind_is_replaced_and_never_told(kind, secret):
    text = AROUND.get(kind, "before {} after").format(secret)
    (value,), report = redacted(text)
    assert value["text"] == text.replace(secret, f"[{kind}-1]")
    assert report.kinds == {kind: 1}
    assert secret.encode() not in msgspec.json.encode(report)
    assert [(each.file, each.line, each.field, each.kind, each.count) for each in report.places] == [
        ("a.jsonl", 1, "text", kind, 1)
    ]


@pytest.mark.parametrize("text", NONE_OF_THEM)
def test_ordinary_numbers_and_words_stay(text):
    (value,), report = redacted(text)
    assert (value["text"], report.kinds, report.changed_rows) == (text, {}, 0)


def test_the_same_value_has_the_same_mark_in_all_rows():
    values, report = redacted("a@x.org and b@x.org", "B@x.org again", {"n": {"deep": ["a@x.org"]}})
    assert [value.get("text") for value in values[:2]] == ["[email-1] and [email-2]", "[email-2] again"]
    assert values[2] == {"n": {"deep": ["[email-1]"]}}
    assert (report.kinds, report.values, report.changed_rows) == ({"email": 4}, {"email": 2}, 3)
    assert report.places[-1].field == "n.deep.0"


def test_redacting_twice_changes_nothing_more():
    texts = [AROUND.get(kind, "x {} y").format(each) for kind, secrets in SECRETS.items() for each in secrets]
    once, _ = redacted(*texts)
    twice, report = redacted(*once)
    assert twice == once
    assert report.kinds == {}


def test_the_same_rows_give_the_same_marks():
    assert redacted("a@x.org +44 20 7946 0958")[0] == redacted("a@x.org +44 20 7946 0958")[0]


def test_fields_named_like_secrets_and_numbers_and_keys_are_redacted():
    values, report = redacted(
        {"password": "abc", "user": {"api_key": "zzz"}, "card": 4111111111111111, "n": 12, "ok": True, "a@x.org": 1}
    )
    assert values == [
        {
            "password": "[named_secret-1]",
            "user": {"api_key": "[named_secret-2]"},
            "card": "[card-1]",
            "n": 12,
            "ok": True,
            "[email-1]": 1,
        }
    ]
    assert "a@x.org" not in msgspec.json.encode(report).decode()


def test_only_the_kinds_that_are_asked_for():
    (value,), _ = redacted("a@x.org 4111 1111 1111 1111", kinds=("card",))
    assert value["text"] == "a@x.org [card-1]"
    with pytest.raises(ConfigError, match="no kind `cards`"):
        Redactor(("cards",))


REPEATED = ("+", "1 ", "4", "a@", "AB12", "password=", "(555) ", "://a:", "-----BEGIN PRIVATE KEY-----")


@pytest.mark.parametrize("text", [piece * (200_000 // len(piece)) for piece in REPEATED], ids=REPEATED)
def test_hostile_texts_are_read_in_linear_time(text):
    """The test's own time limit fails it if a pattern tries every way to match."""
    redacted(text)


def test_checksums():
    assert luhn_valid("4111111111111111")
    assert not luhn_valid("4111111111111112")
    assert iban_valid("DE89370400440532013000")
    assert not iban_valid("DE88370400440532013000")
    assert not iban_valid("DE8937040044053201300")


@pytest.mark.parametrize("value", ["[hunter2hunter2", ["hunter2hunter2"], {"value": "hunter2hunter2", "more": [{"x": 12345678}]}])
def test_everything_below_a_field_named_like_a_secret_is_one(value):
    values, _ = redacted({"password": value})
    assert not {"hunter2hunter2", "12345678"} & set(re.findall(r"\w+", str(values)))


def test_provenance_keeps_neither_a_secret_nor_a_hash_of_what_was_removed():
    value = {"phone": "+49 170 1234567"}
    redactor = Redactor()
    rows = [DataRow(value, RowProvenance("ada@example.org.jsonl", 1, row_hash(value)))]
    (row,) = redactor.redact_rows(rows)
    assert row.origin.sha256 == row_hash(row.value) != row_hash(value)
    assert "ada@example.org" not in row.origin.file + msgspec.json.encode(redactor.report()).decode()
