"""The rules file of `--watch`: what it may hold, and what is said about what it may not."""

import pytest

from sandlot.analysis.watch.rules import DriftRule, FailureRateRule, StallRule, read_rules
from sandlot.core.errors import ConfigError
from sandlot.core.types import Side


def test_rules_are_read_with_their_limits(tmp_path):
    file = tmp_path / "rules.toml"
    file.write_text(
        'webhook = "http://127.0.0.1:9/alerts"\n'
        '[[rule]]\non = "failure_rate"\nabove = 0.2\nsides = ["sandbox"]\n'
        '[[rule]]\non = "stall"\nafter_s = 60\n'
        '[[rule]]\non = "drift"\nname = "tokens moved"\nagainst = "runs/before"\n'
    )
    rules = read_rules(file)
    assert rules.rule == (
        FailureRateRule(above=0.2, sides=(Side.SANDBOX,)),
        StallRule(after_s=60),
        DriftRule(name="tokens moved", against="runs/before"),
    )
    assert [rule.title for rule in rules.rule] == ["failure_rate", "stall", "tokens moved"]
    assert rules.address == "http://127.0.0.1:9/alerts"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "missing required field `rule`"),
        ("rule = []", "there is no rule"),
        ("[[rule]]", "missing required field `on`"),
        ('[[rule]]\non = "explosion"', "Invalid value 'explosion'"),
        ('[[rule]]\non = "stall"\nafter = 3', "unknown field `after`"),
        ('[[rule]]\non = "stall"\nafter_s = 0', "> 0"),
        ('[[rule]]\non = "failure_rate"\nabove = 1.5', "< 1.0"),
        ('[[rule]]\non = "failure_rate"\nsides = ["nobody"]', "Invalid enum value 'nobody'"),
        ('[[rule]]\non = "drift"\nwindow = 100000000', "<= 100000"),
        ('[[rule]]\non = "stall"\n[[rule]]\non = "stall"', "two rules are called `stall`"),
        ('webhook = "file:///etc/passwd"\n[[rule]]\non = "stall"', "not an http or https address"),
        ('webhook = "http://"\n[[rule]]\non = "stall"', "not an http or https address"),
        ('webhook = "http://h/\\r\\nX: y"\n[[rule]]\non = "stall"', "not an http or https address"),
        ('webhook_env = "NO_SUCH_NAME"\n[[rule]]\non = "stall"', "`NO_SUCH_NAME` is not set"),
        ('webhook = "http://h"\nwebhook_env = "HOME"\n[[rule]]\non = "stall"', "both `webhook` and `webhook_env`"),
        ("[[rule", "rules.toml"),
        ("\x00", "rules.toml"),
    ],
)
def test_what_is_wrong_is_said_with_the_name_of_the_file(tmp_path, text, said):
    file = tmp_path / "rules.toml"
    file.write_text(text)
    with pytest.raises(ConfigError) as refused:
        read_rules(file)
    assert said in str(refused.value)
    assert str(refused.value).startswith(f"--watch `{file}`: ")


def test_a_file_that_is_not_there_is_said_to_be_missing(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        read_rules(tmp_path / "none.toml")


def test_an_address_that_is_a_secret_comes_from_the_environment_and_is_in_no_message(tmp_path, monkeypatch):
    file = tmp_path / "rules.toml"
    file.write_text('webhook_env = "HOOK"\n[[rule]]\non = "stall"')
    monkeypatch.setenv("HOOK", "https://chat.example/secret")
    assert read_rules(file).address == "https://chat.example/secret"
    monkeypatch.setenv("HOOK", "ftp://chat.example/secret")
    with pytest.raises(ConfigError) as refused:
        read_rules(file)
    assert "secret" not in str(refused.value)
