"""Pages of a run in one file: what is in it, what is not, and what is redacted."""

import base64
import hashlib
import html
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from builders.view_pages import ADDRESS, ATTACK, PICTURES, SECRET, make_run
from sandlot.core.errors import ConfigError
from sandlot.core.redaction import RedactionRules
from sandlot.core.trace import Node, Trace, text_message
from sandlot.core.types import Role
from sandlot.run.results import Run
from sandlot.web import bundle
from sandlot.web.bundle import bundle_scripts
from sandlot.web.pages.messages import show_messages
from sandlot.web.redacted import redacted_trace
from sandlot.web.saved import choose_traces, redact_drawn, save_pages

STATIC = Path(bundle.__file__).parent / "static"


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return make_run(tmp_path_factory.mktemp("saved"))


@pytest.fixture(scope="module")
def page(run) -> str:
    return save_pages(run, [("made", 1), ("made", 3)], tokens=True).text


def test_the_file_loads_nothing_and_its_policy_names_its_script_and_style(page):
    policy = html.unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page).group(1))
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for kind, tag in (("script", "script"), ("style", "style")):
        (text,) = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    assert page.count("<script") == 1
    assert not re.search(r'(?:href|src)="(?!#|data:image/(?:png|svg)|")', page), "every link stays in the file"


def test_links_between_the_pages_work_inside_the_file_and_what_is_left_out_is_said(page):
    pages = set(re.findall(r'data-page="(page-\d+)"', page))
    linked = {found.partition("#")[0] for found in re.findall(r'href="#(page-\d+[^"]*)"', page)}
    assert linked <= pages
    assert len(linked) > 5
    assert 'href="#left-out"' in page, "rollout 2 has no page"
    assert "2 of 4 rollouts in one file" in page
    assert "2 other rollouts" in page
    assert base64.b64encode(PICTURES[0]).decode() in page


def test_nothing_of_a_secret_or_an_address_is_in_the_file(run, page, monkeypatch):
    for word in (SECRET, ADDRESS, SECRET[:20], base64.b64encode(SECRET.encode()).decode()[:30]):
        assert word not in page, word
    assert "[redacted]" in page
    monkeypatch.setenv("SOME_SERVICE_PASSWORD", "turn 0 of the game")
    monkeypatch.setenv("PLACE", "turn 1")
    (run / "redaction.txt").write_text("done by \\d\n\n")
    try:
        text = save_pages(run, [("made", 1)], hide=["echo [12] of"]).text
    finally:
        (run / "redaction.txt").unlink()
    assert "done by" not in text
    assert "echo 1 of" not in text
    assert "turn 1" in text, "not every variable is a secret"


def test_a_secret_is_found_before_a_text_is_cut_in_the_middle_of_it():
    trace = Trace(run="r", task="t", rollout=0, seed=0)
    trace.append(Node(message=text_message(Role.USER, "." * 3_985 + " " + SECRET + "." * 9_000)))
    rules = RedactionRules({})
    (uncut,) = show_messages(trace, None)
    assert SECRET[:14] in uncut["parts"][0]["text"], "the cut is in the middle of it"
    (shown,) = show_messages(redacted_trace(trace, rules), None)
    assert "sk-" not in shown["parts"][0]["text"]
    assert rules.num_redacted == 1


def test_a_message_with_a_secret_keeps_no_tokens(run):
    page = save_pages(run, [("made", 1)], tokens=True).text
    held = [html.unescape(each) for each in re.findall(r'data-address="tokens-\d+">([^<]*)', page)]
    messages = [int(re.search(r'"message":(\d+)', each).group(1)) for each in held]
    assert 1 in messages
    assert 9 not in messages, "the last message holds the secret"


def test_hostile_text_stays_text(page):
    body = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    assert "<img src=x" not in body
    assert "<script>document" not in body
    assert html.escape(ATTACK).replace("&#x27;", "&#39;").replace("&quot;", "&#34;") in body


def test_no_attribute_in_the_file_acts_or_leads_out(page):
    found = []

    class Reader(HTMLParser):
        def handle_starttag(self, tag, attrs):
            for name, value in attrs:
                leads = name in {"href", "src", "action", "formaction", "srcdoc", "data", "xlink:href"}
                inside = re.match(r"#|$|data:image/(png|jpeg|gif|webp|svg\+xml);base64,", value or "")
                if name.startswith("on") or name == "style" or not re.fullmatch(r"[a-z-]+\d*", name) or (leads and not inside):
                    found.append((tag, name, value))

    Reader().feed(page)
    assert found == []


@pytest.mark.parametrize("rule", ["-----BEGIN PRIVATE KEY-----", "[^x]*$", "end.*", "&.*;.*"])
def test_what_a_rule_removes_never_takes_a_mark_of_the_page_with_it(rule):
    """A key that is cut off is removed to the end of its text: a quote that went with it would make names of what follows."""
    page = '<td title="a -----BEGIN PRIVATE KEY-----end" data-x="onclick=alert(1) &#34;">b -----BEGIN PRIVATE KEY-----end</td>'
    rules = RedactionRules({}, () if rule.startswith("-") else (rule,))
    drawn = redact_drawn(page, rules)
    assert re.fullmatch(r'<td title="[^"<>]*" data-x="[^"<>]*">[^"<>]*</td>', drawn)
    assert "[redacted]" in drawn


def test_without_being_asked_no_tokens_are_in_the_file(run):
    assert 'data-address="tokens' not in save_pages(run, [("made", 1)]).text


def test_failures_and_low_scores_are_chosen_first(run):
    assert choose_traces(Run(run).rows, 2) == [("made", 3), ("made", 2)]
    with pytest.raises(ConfigError, match="no rollout to save"):
        save_pages(run, [])


def test_every_script_of_a_page_can_be_put_into_one_file():
    bundled = bundle_scripts(sorted(path.stem for path in STATIC.glob("*.js")))
    assert not re.search(r"^\s*(import|export)\b", bundled, re.MULTILINE)
