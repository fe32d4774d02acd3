"""Task folders of strangers with shell marks in their metadata: they stay text, and nothing of them runs on the host."""

import json

import pytest

from sandlot.core.errors import ConfigError
from sandlot.interop.harbor.source import read_harbor
from unit.interop.harbor.test_harbor_source import harbor_task

MARKS = [
    "$(touch PWNED)",
    "`touch PWNED`",
    "; touch PWNED",
    "| touch PWNED",
    "&& touch PWNED",
    "\n touch PWNED",
    "'; touch PWNED; '",
]
"""Where `PWNED` is a file that must not come to be."""


@pytest.fixture
def armed(tmp_path, monkeypatch):
    """A working folder that stays empty, and a function that arms a text."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    yield lambda text: text.replace("PWNED", str(here / "PWNED"))
    assert list(here.iterdir()) == []


@pytest.mark.parametrize("mark", MARKS)
def test_shell_marks_in_metadata_stay_text(tmp_path, armed, mark):
    value = json.dumps(armed(mark))
    toml = f"""version = {value}
[metadata]
difficulty = {value}
tags = [{value}]
author_name = {value}
license = {value}
[verifier]
timeout_sec = 30.0
env = {{ A = {value} }}
[agent]
timeout_sec = 60
[environment]
cpus = 1
"""
    folder = harbor_task(tmp_path / "t", toml)
    try:
        found = read_harbor(folder)
    except ConfigError:
        return
    assert found.tests_env == {"A": armed(mark)}
