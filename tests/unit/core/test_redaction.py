"""Secrets are found however an echo writes them."""

import base64
import html
import json
import random
import urllib.parse

import pytest

from sandlot.core.errors import ConfigError
from sandlot.core.redaction import REDACTED, RedactionRules, Secrets
from sandlot.core.trace import EvidenceRecord, FileRecord

KEY = "sk-Ab/9+x_yz.0123456789="
SECRETS = Secrets([KEY])


def escaped(text: str, share: float = 1.0) -> str:
    rng = random.Random(1)
    return "".join(f"\\u{ord(char):04x}" if rng.random() < share else char for char in text)


ENCODINGS = {
    "as it is": KEY,
    "JSON": json.dumps(KEY),
    "JSON with escaped slashes": json.dumps(KEY).replace("/", "\\/"),
    "escapes": escaped(KEY),
    "escapes in capitals": escaped(KEY).replace("\\u00", "~").upper().replace("~", "\\u00"),
    "some escapes": escaped(KEY, 0.5),
    "escapes inside JSON": json.dumps(escaped(KEY)),
    "a URL": urllib.parse.quote(KEY, safe=""),
    "every character of a URL": "".join(f"%{ord(char):02x}" for char in KEY),
    "a URL in a URL": urllib.parse.quote(urllib.parse.quote(KEY, safe="")),
    "C": "".join(f"\\x{ord(char):02x}" for char in KEY),
    "HTML": "".join(f"&#{ord(char)};" for char in KEY),
    "HTML in hex": "".join(f"&#x{ord(char):X};" for char in KEY),
    "hex": KEY.encode().hex(),
    "hex in capitals": KEY.encode().hex().upper(),
    **{f"base64 after {'abc'[:n]!r}": base64.b64encode(("abc"[:n] + KEY + "tail").encode()).decode() for n in range(4)},
    "base64 for URLs": base64.urlsafe_b64encode(f"user:{KEY}".encode()).decode(),
}


def spelled_out(text: str) -> list[str]:
    """Every way a reader could get at a secret again."""
    plain = html.unescape(urllib.parse.unquote(urllib.parse.unquote(text)))
    slashes = plain.replace("\\\\", "\\").replace("\\/", "/")
    return [text, plain, slashes, slashes.encode().decode("unicode_escape", "replace")]


@pytest.mark.parametrize("way", ENCODINGS)
def test_a_secret_is_hidden_however_it_is_written(way):
    text = f"denied for {ENCODINGS[way]} (see the log)"
    for hidden in (
        SECRETS.redact(text),
        SECRETS.redact_error(text.encode()).decode(),
        SECRETS.redact_reply(text.encode()).decode(),
    ):
        assert REDACTED in hidden
        assert "denied for" in hidden
        assert not any(KEY in form for form in spelled_out(hidden))
        assert KEY.encode().hex()[:24] not in hidden.lower()


@pytest.mark.parametrize("text", ["", "nothing here", "100 % of \\u00e4 &#65; in a \\path", "a\ud800b", "ä" * 1000])
def test_other_text_stays_as_it_is(text):
    assert SECRETS.redact(text) == text


@pytest.mark.parametrize("piece", ["\\", "%25", "&#0", "&#x0", "s\\", "\\x", "0"])
def test_long_rows_of_escapes_are_read_once(piece):
    body = b"% &#" + piece.encode() * 200_000
    assert SECRETS.redact_reply(body) == body


def test_a_secret_after_a_row_of_backslashes_is_hidden():
    assert SECRETS.redact("\\" * 9 + escaped(KEY) + " % " + "\\" * 9 + KEY) == REDACTED + " % " + "\\" * 9 + REDACTED


def test_short_words_are_hidden_in_errors_only():
    secrets = Secrets(["hunter2", "EMPTY"])
    assert secrets.redact("hunter2 EMPTY") == f"{REDACTED} EMPTY"
    assert secrets.redact_reply(b"hunter2") == b"hunter2"


def test_it_shows_nothing_of_itself():
    assert repr(SECRETS) == "Secrets(1 hidden)"


@pytest.mark.parametrize(
    "text",
    [
        "sk-proj-abcdefgh12345678ijkl",
        "ghp_abcdefghijklmnopqrst",
        "AKIAABCDEFGHIJKLMNOP",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
        "-----BEGIN RSA PRIVATE KEY-----\nabc\ndef\n-----END RSA PRIVATE KEY-----",
        "jane.doe+list@mail.people.example",
    ],
)
def test_rules_know_keys_and_addresses_by_their_shape(text):
    assert RedactionRules({}).redact(f"it is {text} here") == f"it is {REDACTED} here"


def test_rules_take_secrets_from_variables_named_like_them_and_patterns_of_the_reader():
    rules = RedactionRules({"DESK_PASSWORD": "open sesame", "PLACE": "the cave", "SHORT_KEY": "abc"}, [r"\bbooth \d+"])
    assert rules.redact("open sesame, the cave, abc, booth 12") == f"{REDACTED}, the cave, abc, {REDACTED}"
    with pytest.raises(ConfigError, match="not a regular expression"):
        RedactionRules({}, ["("])


def test_rules_reach_every_text_of_a_record_and_count_each_once():
    rules = RedactionRules({}, ["secret"])
    found = FileRecord(size=1, blob="secret")
    record = EvidenceRecord(answer="a secret", state={"secret": ["secret", ("secret", 1)]}, files={"/secret": found})
    clean = rules.redact_all(record)
    assert clean.answer == f"a {REDACTED}"
    assert clean.state == {REDACTED: [REDACTED, (REDACTED, 1)]}
    assert clean.files == {f"/{REDACTED}": FileRecord(size=1, blob=REDACTED)}
    assert rules.num_redacted == 3
    assert rules.redact_all(b"secret") == b"secret"


def test_rules_take_linear_time_on_hostile_text():
    rules = RedactionRules({})
    for text in ("a" * 2_000_000, "-----BEGIN PRIVATE KEY-----" * 20_000, "a@" * 500_000, "a@b" + ".c" * 500_000):
        rules.redact(text)


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK: AES,00\n\nc2VjcmV0\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nc2VjcmV0",
        "-----BEGIN PRIVATE KEY-----\nc2VjcmV0\n-----BEGIN PRIVATE KEY-----\nb3RoZXI=\n-----END PRIVATE KEY-----",
    ],
)
def test_a_private_key_is_removed_whole_also_encrypted_or_cut_off(text):
    assert "c2VjcmV0" not in RedactionRules({}).redact(f"see {text}")


def test_text_that_begins_like_tokens_again_and_again_is_read_once():
    # With a start at every `eyJ`, a tool's result of a megabyte took minutes.
    assert RedactionRules({}).redact("eyJ-" * 250_000) == "eyJ-" * 250_000
