"""Runs compared in the browser: the numbers of `sandlot compare`, which tasks flipped, and the list they are picked from."""

import re
from html import unescape

import pytest

import sandlot
from builders import rows
from builders.stored_runs import store_rows
from drive.view import open_pages
from sandlot import Run
from sandlot.web.site import compare_link, link

ATTACK = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\"'"


@pytest.fixture(scope="module")
def manifest(tmp_path_factory):
    return sandlot.run("arithmetic", "scripted:golden", rollouts=1, runs=tmp_path_factory.mktemp("one")).path / "manifest.json"


@pytest.fixture
def folder(manifest, tmp_path):
    before = {"up": 0.0, "down": 1.0, "half": 0.5, ATTACK: 0.0, "same": 1.0}
    after = {"up": 1.0, "down": 0.0, "half": 0.75, ATTACK: 1.0, "same": 1.0}
    for name, scores in (("before <b>", before), ("after", after), ("again", after)):
        made = [rows.scored(task, rollout, score) for task, score in scores.items() for rollout in range(2)]
        store_rows(tmp_path / name, manifest, [*made, rows.failed("lost", 0, side="model")])
    return tmp_path


def table_of(text: str) -> list[list[str]]:
    body = text[text.rindex("<tbody>") :]
    found = re.findall(r"<tr>(.*?)</tr>", body, re.DOTALL)
    return [
        [unescape(re.sub(r"<[^>]*>", "", cell)).strip() for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)]
        for row in found
    ]


async def test_the_page_shows_what_the_command_knows(folder):
    compared = Run(folder / "before <b>").compare(Run(folder / "after"))
    async with open_pages(folder) as pages:
        text = await pages.get(compare_link(["before <b>", "after"]))
        assert f"{compared.score.value:+.3f} ({compared.score.low:+.3f} to {compared.score.high:+.3f})" in text
        assert f"{compared.p_value:.2g}" in text
        assert "<img" not in text
        assert "<b>compare" in text
        assert text.count("<script") == 1
        shown = {row[0]: row[1:] for row in table_of(text)}
        assert shown.keys() == {"up", "down", "half", ATTACK}
        assert shown["up"][-1].split() == ["+1.000", "solved"]
        assert shown["down"][-1].split() == ["-1.000", "lost"]
        assert shown["half"] == ["0.500 0/2", "0.750 0/2", "+0.250"]


@pytest.mark.parametrize(
    ("show", "expected"),
    [
        ("flipped", {"up", "down", ATTACK}),
        ("better", {"up", "half", ATTACK}),
        ("worse", {"down"}),
        ("all", {"up", "down", "half", ATTACK, "same", "lost"}),
        ("nonsense", {"up", "down", "half", ATTACK}),
    ],
)
async def test_tasks_are_chosen_by_what_became_of_them(folder, show, expected):
    async with open_pages(folder) as pages:
        text = await pages.get(compare_link(["before <b>", "after"], show=show))
        assert {row[0] for row in table_of(text)} == expected
        assert {row[0] for row in table_of(await pages.get(compare_link(["before <b>", "after"], show="all", task="SAM")))} == {
            "same"
        }


async def test_three_runs_are_compared_with_the_first(folder):
    async with open_pages(folder) as pages:
        text = await pages.get(compare_link(["after", "again", "before <b>"]))
        shown = {row[0]: row[1:] for row in table_of(text)}
        assert shown["up"] == ["1.000 2/2", "1.000 2/2", "0", "0.000 0/2", "-1.000 lost"]


async def test_too_few_too_many_and_unknown_runs_are_refused(folder):
    async with open_pages(folder) as pages:
        for names in ([], ["after"], ["after", "after"], ["after", "../after"], ["after", "nope@000001"], ["x"] * 3):
            assert "<img" not in await pages.get(compare_link(names), 404)
        assert "pick 2 to 8 runs" in await pages.get(compare_link(["after"]), 404)


async def test_a_changed_run_is_compared_again(folder, manifest):
    async with open_pages(folder) as pages:
        first = await pages.get(compare_link(["before <b>", "after"]))
        (folder / "after" / "segments" / "000001.parquet").unlink()
        made = store_rows(folder.parent / "spare", manifest, [rows.scored("up", 0, 0.5)])
        (made / "segments" / "000001.parquet").rename(folder / "after" / "segments" / "000001.parquet")
        second = await pages.get(compare_link(["before <b>", "after"]))
        assert [row[0] for row in table_of(second)] == ["up"] != [row[0] for row in table_of(first)]


async def test_the_list_has_intervals_failures_by_side_cost_and_a_box_to_pick_each_run(folder):
    (folder / "after" / "sittings.jsonl").write_text(
        '{"wall_s":1,"cpu_s":1,"stopped":"too <b>many</b> failures","tripped":true}\n'
    )
    async with open_pages(folder) as pages:
        text = await pages.get("/")
        assert text.count('type="checkbox" name="run"') == 3
        assert 'value="before &lt;b&gt;"' in text
        row = text[text.index(f'href="{link("after")}"') :]
        row = row[: row.index("</tr>")]
        entry = Run(folder / "after").summary()
        assert f"{entry.score.low:.2f} to {entry.score.high:.2f}" in row
        assert "model 1" in row
        assert "$0.11" in row
        assert "too &lt;b&gt;many&lt;/b&gt; failures" in text
