"""`sandlot view --out` and `sandlot record`: rollouts as files to send."""

from pathlib import Path

import pytest

from builders.view_pages import make_run


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return make_run(tmp_path_factory.mktemp("files"))


def test_the_pages_of_chosen_traces_are_one_file(sandlot, run, tmp_path):
    def view(*words: object) -> int:
        return sandlot("view", *words, cwd=tmp_path).code

    done = sandlot("view", run, "--out", "page.html", "--traces", 1, cwd=tmp_path)
    page = tmp_path / "page.html"
    assert (done.code, "1 traces" in done.out, "redacted in" in done.out) == (0, True, True), done
    assert "1 of 4 rollouts" in page.read_text()
    assert view(f"{run}/made/1", f"{run}/made/2", "--out", "page.html") == 0
    assert "2 of 4 rollouts" in page.read_text()
    refused = [(), (f"{run}/made/1", "--hide", "("), (f"{run}/made/9",)]
    assert [view(*words, "--out", "page.html") for words in refused] == [2, 2, 2]
    assert view(f"{run}/made/1", f"{run}/made/2") == 2, "several need --out"


def test_a_terminal_is_recorded(sandlot, run, tmp_path):
    done = sandlot("record", f"{run}/made/1", "--out", "made.cast", cwd=tmp_path)
    assert (done.code, done.out) == (0, "12 events -> made.cast\n")
    recording = (tmp_path / "made.cast").read_text()
    assert recording.startswith('{"version":2,')
    assert sandlot("record", f"{run}/made/1", cwd=tmp_path).out == recording
    refused = sandlot("record", f"{run}/made/0", cwd=tmp_path)
    assert refused.code == 2
    assert "ran no shell commands" in refused.err
