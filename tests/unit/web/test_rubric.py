"""Editing a rubric over a real server: lint, trial and saving; a request can change little, and never names code or paths."""

import json
import os
from pathlib import Path

import anyio
import pytest

import sandlot
from drive.visitor import visit
from fakes.endpoint import Answer, FakeEndpoint, Request, says
from sandlot.web.site import Site, serve_environment
from worlds.folders import ATTACK, RUBRIC, write_environment


@pytest.fixture
def place(tmp_path) -> Path:
    folder = write_environment(tmp_path / "sums")
    made = sandlot.run(folder, "scripted:golden", group=2, runs=tmp_path / "runs")
    made.path.rename(tmp_path / "runs" / "first")
    return tmp_path


def site(place: Path, **options) -> Site:
    return Site(place / "runs", environment=serve_environment(str(place / "sums")), **options)


def file(place: Path, name: str = "default") -> Path:
    return place / "sums" / "rubrics" / f"{name}.json"


async def seen(visitor, name: str = "default") -> str:
    return (await visitor.read(f"/rubric?name={name}"))[1].partition('data-seen="')[2][:64]


def told(*checks, name: str = "default", **more) -> dict:
    return {"name": name, "checks": list(checks), **more}


async def test_the_page_shows_the_rubric_and_hostile_prompts_as_text(place):
    async with visit(site(place)) as guest:
        for name in ("default", "judged"):
            status, text = await guest.read(f"/rubric?name={name}")
            assert status == 200, text
            assert (text.count("<script"), "<img" in text) == (1, False)
            assert "--control" in text
            assert 'id="save"' not in text
        assert "It is polite. &lt;/textarea&gt;" in text
        assert (await guest.read("/rubric?name=../../etc"))[0] == 404
    async with visit(Site(place / "runs")) as guest:
        assert (await guest.read("/rubric"))[0] == 404


async def test_lint_says_at_once_what_is_wrong_in_words_for_people(place):
    async with visit(site(place)) as guest:

        async def lint(*checks) -> list[tuple[str, str]]:
            status, said = await guest.post("/rubric/lint", told(*checks))
            assert status == 200, said
            return [(each["severity"], each["message"]) for each in said["findings"]]

        assert all(severity != "error" for severity, _ in await lint({"was": 0}, {"was": 1}))
        assert await lint({"was": 0, "points": "many"}) == [("error", "check `right`: points: write a number, not `many`")]
        assert "whole number" in (await lint({"kind": "judge", "id": "a", "prompt": "x", "votes": 1.5}))[0][1]
        assert "arguments are not written as names and values" in (await lint({"was": 1, "args": "{"}))[0][1]
        assert ("error", "check `right`: requires `nothing`, which does not exist") in await lint(
            {"was": 0, "requires": ["nothing"]}
        )
        assert "the positive points add up to 0" in str(await lint({"was": 0, "points": 0}))
        assert "cannot be called with" in str(
            await lint({"kind": "python", "id": "new", "ref": "sandlot:file_exists", "args": {}})
        )
    assert file(place).read_text() == RUBRIC


async def test_a_trial_grades_stored_rollouts_and_writes_nothing(place):
    before = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    async with visit(site(place)) as guest:
        status, said = await guest.post("/rubric/try", told({"was": 0}, {"was": 1, "points": 9}, run="first"))
        assert status == 200, said
        assert (said["graded"], said["of"], said["changed"], said["same_environment"]) == (12, 12, 6, True)
        assert said["before"] == pytest.approx((1 + 0.75) / 2)
        assert said["now"] == pytest.approx((1 + 0.25) / 2)
        assert said["rollouts"][0]["before"] == "3/4"
        _, said = await guest.post("/rubric/try", told({"was": 0}, {"was": 1}, run="first"))
        assert (said["changed"], said["only_points"]) == (0, 0)
        _, said = await guest.post("/rubric/try", told({"was": 0}, {"was": 1, "points": 9}, run="first", most=3))
        assert (said["graded"], said["of"]) == (3, 12)
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == before


def strict(request: Request) -> Answer:
    """A judge that says no to everything but what is true for sure."""
    asked = request.body["messages"][-1]["content"]
    return says(json.dumps({"reason": "because", "verdict": "yes" if "7 is greater than the number 3" in asked else "no"}))


async def test_a_judge_check_is_tried_with_the_judge_that_the_command_named(place):
    polite = {"kind": "judge", "id": "polite", "prompt": "The answer says please.", "points": 4}
    async with FakeEndpoint(then=strict) as endpoint, visit(site(place, judge=f"openai:judge@{endpoint.url}")) as guest:
        status, said = await guest.post("/rubric/try", told({"was": 0}, {"was": 1}, polite, run="first", most=4))
        assert status == 200, said
        assert (said["graded"], said["changed"], said["checks"][0][0]) == (4, 4, "polite")
        assert said["now"] == pytest.approx(said["before"] / 2)
        assert any("says please" in str(request.body) for request in endpoint.requests)


@pytest.mark.parametrize(
    ("wrong", "problem"),
    [
        (told({"was": 0}, run="../first"), "no run"),
        (told({"was": 0}, run="first", most=10**9), "give 1 to 500"),
        (told({"was": 0, "points": 0}, run="first"), "positive points"),
        (told({"was": 0}, name="judged", run="first"), "--judge MODEL"),
        (told({"was": 7}, run="first"), "has 2 checks"),
        (told({"was": 0}, {"was": 0}, run="first"), "load the page again"),
        (told({"kind": "python", "id": "x", "ref": "checks:right"}, run="first"), "built-in function"),
        (told({"kind": "python", "id": "x", "ref": "os:system", "args": {}}, run="first"), "built-in function"),
        (told({"kind": "shell", "id": "x"}, run="first"), "by `judge` or `python`"),
        ({"name": "../default", "checks": []}, "no rubric file"),
        ({"name": "default", "checks": "x"}, "must be a list"),
    ],
)
async def test_what_cannot_be_tried_is_refused_with_the_reason(place, wrong, problem):
    async with visit(site(place)) as guest:
        status, said = await guest.post("/rubric/try", wrong)
        assert (status, problem in said["problem"]) == (400, True), said


async def test_saving_keeps_the_form_of_the_file_and_needs_control(place):
    async with visit(site(place, reader="ann")) as guest:
        status, said = await guest.post("/rubric/save", told({"was": 0}, seen=await seen(guest)))
        assert (status, "--control" in said["problem"]) == (400, True)
    assert file(place).read_text() == RUBRIC
    file(place).chmod(0o640)
    async with visit(site(place, control=True)) as owner:
        new = {
            "kind": "judge",
            "id": "kind",
            "prompt": ATTACK,
            "points": 1,
            "choices": ["no", "yes"],
            "view": ["answer"],
            "votes": 1,
        }
        post = told(
            {"was": 0, "points": 5, "gate": True, "ref": "os:system", "id": "renamed"}, {"was": 1}, new, seen=await seen(owner)
        )
        status, said = await owner.post("/rubric/save", post)
        assert status == 200, said
        lines = RUBRIC.splitlines()
        written = file(place).read_text().splitlines()
        assert written[3] == lines[3].replace('"points": 3}', '"points": 5, "gate": true}')
        assert written[4] == lines[4] + ","
        assert json.loads(written[5]) == {"kind": "judge", "id": "kind", "prompt": ATTACK}
        assert file(place).stat().st_mode & 0o777 == 0o640
        assert "&lt;script&gt;" in (await owner.read("/rubric"))[1]
    assert sorted(path.name for path in file(place).parent.iterdir()) == ["default.json", "judged.json"], "no draft is left"


async def test_a_file_that_changed_meanwhile_and_a_rubric_with_errors_are_not_overwritten(place):
    async with visit(site(place, control=True)) as owner:
        old = await seen(owner)
        file(place).write_text(RUBRIC.replace('"points": 3', '"points": 4'))
        status, said = await owner.post("/rubric/save", told({"was": 0, "points": 9}, {"was": 1}, seen=old))
        assert (status, "has changed since" in said["problem"]) == (400, True)
        status, _ = await owner.post("/rubric/save", told({"was": 0, "points": 0}, seen=await seen(owner)))
        assert status == 400
        assert '"points": 4' in file(place).read_text()
        file(place).write_text("{")
        assert (await owner.read("/rubric"))[0] == 404
        assert (await owner.post("/rubric/save", told({"was": 0}, seen=old)))[0] == 400


async def test_of_two_who_save_at_once_one_is_refused(place):
    answers: list[int] = []
    async with visit(site(place, control=True)) as ann, visit(site(place, control=True)) as bob:
        old = await seen(ann)

        async def save(who, points: int) -> None:
            answers.append((await who.post("/rubric/save", told({"was": 0, "points": points}, {"was": 1}, seen=old)))[0])

        async with anyio.create_task_group() as group:
            for number, who in enumerate((ann, bob) * 3):
                group.start_soon(save, who, 10 + number)
    assert sorted(answers) == [200, 400, 400, 400, 400, 400]


async def test_a_byte_order_mark_and_windows_line_ends_stay(place):
    data = b"\xef\xbb\xbf" + RUBRIC.replace("\n", "\r\n").encode()
    file(place).write_bytes(data)
    async with visit(site(place, control=True)) as owner:
        status, said = await owner.post("/rubric/save", told({"was": 0, "points": 7}, {"was": 1}, seen=await seen(owner)))
        assert status == 200, said
    assert file(place).read_bytes() == data.replace(b'"points": 3', b'"points": 7')


async def test_a_link_in_place_of_the_file_stays_a_link(place):
    target = place / "shared.json"
    os.replace(file(place), target)  # noqa: PTH105 - the reverse of `symlink_to` below
    file(place).symlink_to(target)
    async with visit(site(place, control=True)) as owner:
        status, said = await owner.post("/rubric/save", told({"was": 0, "points": 7}, {"was": 1}, seen=await seen(owner)))
        assert status == 200, said
    assert file(place).is_symlink()
    assert '"points": 7' in target.read_text()
