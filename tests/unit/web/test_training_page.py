"""The page of a training: curves, alarms and what was done, the rollouts of a step, held-out tasks before and after."""

import json
import re

import anyio
import msgspec
import pytest
from yarl import URL

import sandlot
from builders import rows
from builders.stored_runs import store_rows
from drive.view import open_pages
from sandlot.analysis.alarm import Alarm
from sandlot.analysis.training_log import FILE
from sandlot.observe.training_records import (
    Collapse,
    Diversity,
    EnvironmentScore,
    EnvironmentStep,
    Learned,
    Measured,
    SeatScore,
    WentBack,
)
from sandlot.store.lock import write_lock
from sandlot.web.site import compare_link, link

ATTACK = "<script>document.title='owned'</script><img src=x onerror=alert(1)>\"'"
RECIPE = {"name": "sums", "model": ATTACK, "steps": 5, "tasks": 2, "group": 2, "algorithm": {"is": "PolicyGradient"}}


def step(version: int, **fields) -> Learned:
    plain = {
        "reward": 0.5, "reward_error": 0.1, "passed": 0.25, "outcome": 0.25, "rollouts": 4, "failed": 1, "groups": 2,
        "informative": 1, "loss": 0.1, "norm": 2.0,
        "tokens": 100, "shared": 1.0, "kl": 0.01, "entropy": 0.7, "clipped": 0.0, "staleness": 1,
        "sampled": 80, "seconds": 4.0, "update_s": 1.0, "phases": {"model": 2.0, "tools": 1.0, "grade": 1.0},
        "diversity": Diversity(distinct=0.5, distance=0.25, first_entropy=0.1, groups=2),
    }  # fmt: skip
    return Learned(version=version, **(plain | fields))


def evaluation(version: int, mean: float) -> Measured:
    return Measured(
        version=version, mean=mean, low=mean - 0.1, high=mean + 0.1, passed=mean, passed_low=0.0, passed_high=1.0, rollouts=4,
        failed=0, run=f"evaluations/{version:06d}",
    )  # fmt: skip


LINES = [
    evaluation(0, 0.25),
    step(1),
    step(2, kl=None, loss=float("nan")),
    step(3, informative=0, tokens=0),
    Alarm(version=3, reward_rise=0.3, outcome_rise=0.0, reward_evidence=200.0, gap_evidence=300.0),
    WentBack(version=3, best=0),
    Collapse(version=3, why=f"KL 9 is 90 times its usual 0.1 {ATTACK}", action="roll_back", rate=0.5),
    evaluation(4, 0.75),
]


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A folder as a training leaves it, without training: rollouts of six groups, and two evaluations."""
    place = tmp_path_factory.mktemp("trained")
    manifest = sandlot.run("arithmetic", "scripted:golden", rollouts=1, runs=place / "one").path / "manifest.json"
    order = [("a", 0), ("b", 0), ("c", 0), ("b", 1), ("c", 1), ("a", 1)]
    taken = [
        rows.scored(task, epoch * 2 + member, started=float(number))
        for number, (task, epoch) in enumerate(order)
        for member in range(2)
    ]
    run = store_rows(place / "runs" / "sums", manifest, taken)
    (run / "recipe.json").write_text(json.dumps(RECIPE))
    (run / "summary.json").write_text(json.dumps({"verdict": "stopped", "stopped": f"stopped because {ATTACK}"}))
    for version, model in ((0, "scripted:noop"), (4, "scripted:golden")):
        measured = sandlot.run("arithmetic", model, split="heldout", rollouts=8, runs=place / "measured")
        (run / "evaluations").mkdir(exist_ok=True)
        measured.path.rename(run / "evaluations" / f"{version:06d}")
    return place / "runs"


@pytest.fixture
def folder(stored):
    (stored / "sums" / FILE).write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in LINES))
    return stored


async def test_the_curves_have_every_figure_and_its_gaps(folder):
    async with open_pages(folder) as pages:
        charts = {each["title"]: each for each in json.loads(await pages.get(link("sums", "training/charts")))["charts"]}

        def points(title: str, number: int = 0) -> list:
            return charts[title]["series"][number]["points"]

        assert points("Held-out score") == [[0, 0.25], [4, 0.75]]
        assert charts["Held-out score"]["series"][0]["band"] == [[0.15, 0.35], [0.65, 0.85]]
        assert points("Training reward") == [[1, 0.5], [2, 0.5], [3, 0.5]]
        assert points("Groups that teach") == [[1, 0.5], [2, 0.5], [3, 0.0]]
        assert points("Groups that teach", 1) == [[1, 0.25], [2, 0.25], [3, 0.25]]
        assert points("KL from the sampling policy") == [[1, 0.01], [2, None], [3, None]]
        assert points("Gradient norm") == [[1, 2.0], [2, 2.0], [3, None]], "a step without trained tokens has none"
        assert points("Entropy")[0] == [1, 0.7]
        assert points("Length")[0] == [1, 20.0]
        assert points("Staleness")[0] == [1, 1]
        assert points("Diversity within groups", 1)[0] == [1, 0.25]
        assert [each["points"][0][1] for each in charts["Time by phase"]["series"]] == [0.375, 0.1875, 0.1875, 0.25]


def of_seats(version: int, **means: float) -> Measured:
    line = evaluation(version, 0.5)
    plain = {"low": 0.0, "high": 1.0, "passed": 0.0}
    seats = {f"<script>{name}": SeatScore(mean=mean, policy=name, **plain) for name, mean in means.items()}
    known = {"mean": 0.5, "low": 0.4, "high": 0.6, "passed": 0.0, "rollouts": 4, "failed": 0, "run": line.run}
    return msgspec.structs.replace(line, environments={"arithmetic": EnvironmentScore(**known, seats=seats)})


@pytest.fixture
def seated(folder):
    """The same training, of an environment where two agents learn and one is frozen."""
    file = folder / "sums" / "manifest.json"
    alone = file.read_bytes()
    manifest = json.loads(alone)
    manifest["seats"] = ["<script>seller", "<script>buyer", "broker"]
    manifest["config"]["seats"] = {"broker": {"spec": "scripted:echo"}}
    file.write_text(json.dumps(manifest))
    yield folder
    file.write_bytes(alone)


async def test_a_step_has_its_rollouts_also_if_those_of_a_seat_have_no_reward(seated):
    known = {"reward": 0.2, "passed": 0.0, "rollouts": 4, "failed": 4, "groups": 4, "informative": 4}
    part = EnvironmentStep(**known, seats={"<script>seller": 0.3})
    lines = [step(each, groups=4, environments={"arithmetic": part}) for each in (1, 2)]
    (seated / "sums" / FILE).write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    async with open_pages(seated) as pages:
        for version, groups in {1: ["a", "b"], 2: ["c", "b"]}.items():
            text = await pages.get(link("sums", "training", step=version))
            steps = text[text.index("Rollouts of a step") :]
            assert re.findall(r'<li><a href="[^"]*" title="([^"]*)"', steps) == groups


async def test_seats_are_shown_by_their_own_scores(seated):
    folder = seated
    rewards = {"<script>seller": 0.3, "<script>buyer": 0.1}
    known = {"reward": 0.2, "passed": 0.0, "rollouts": 4, "failed": 0, "groups": 4, "informative": 4}
    environments = {"arithmetic": EnvironmentStep(**known, seats=rewards)}
    taken = [step(each, groups=4, environments=environments, policies={"seller": step(each)}) for each in (1, 2)]
    lines = [of_seats(0, seller=0.125, buyer=0.625), *taken, of_seats(2, seller=0.75, buyer=0.375)]
    lines.append(Collapse(version=2, why="KL", action="warn", policy="buyer"))
    (folder / "sums" / FILE).write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    async with open_pages(folder) as pages:
        charts = {each["title"]: each for each in json.loads(await pages.get(link("sums", "training/charts")))["charts"]}
        drawn = [each["points"] for each in charts["Held-out score by seat"]["series"]]
        assert drawn == [[[0, 0.125], [2, 0.75]], [[0, 0.625], [2, 0.375]]]
        assert charts["Training reward by seat"]["series"][1]["points"] == [[1, 0.1], [2, 0.1]]
        assert charts["Entropy by seat"]["series"][0]["name"] == "seller"
        text = await pages.get(link("sums", "training", step=2))
        assert text.count("<script") == 1
        tiles = text[: text.index("<h2>Curves")]
        assert "best in version 2" in tiles
        assert "best in version 0" in tiles
        assert "<dt>best version" not in tiles, "there is no shared model"
        assert "`buyer` is about to collapse" in tiles
        steps = text[text.index("Rollouts of a step") :]
        assert re.findall(r'<li><a href="[^"]*" title="([^"]*)"', steps) == ["c", "b"], "a task has a group for each seat"


async def test_evaluations_without_seats_are_gaps_in_their_curves(folder):
    """Lines of a version that did not store them yet."""
    old = msgspec.structs.replace(of_seats(0), mean=0.25)
    lines = [old, of_seats(2, seller=0.75), of_seats(4, seller=0.5, buyer=0.375)]
    (folder / "sums" / FILE).write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    async with open_pages(folder) as pages:
        charts = {each["title"]: each for each in json.loads(await pages.get(link("sums", "training/charts")))["charts"]}
        drawn = charts["Held-out score by seat"]["series"]
        assert [each["points"] for each in drawn] == [[[2, 0.75], [4, 0.5]], [[4, 0.375]]]
        assert [each["band"] for each in drawn] == [[[0.0, 1.0], [0.0, 1.0]], [[0.0, 1.0]]]
        assert "best in version 2" in await pages.get(link("sums", "training"))


async def test_alarms_and_what_was_done_are_listed_with_their_reason_and_no_markup(folder):
    async with open_pages(folder) as pages:
        text = await pages.get(link("sums", "training"))
        assert "<img" not in text
        assert text.count("<script") == 1
        alarms = text[text.index("<h2>Alarms") : text.index("<h2>Curves")]
        for said in ("the reward rose by 0.300", "rolled back, 0.5 of the learning rate", "continued from version 0", "90 times"):
            assert said in alarms, said
        assert "stopped because &lt;script&gt;" in alarms


async def test_the_rollouts_of_any_step_link_to_their_traces(folder):
    async with open_pages(folder) as pages:
        for version, groups in {1: ["a", "b"], 2: ["c", "b"], 3: ["c", "a"]}.items():
            text = await pages.get(link("sums", "training", step=version))
            steps = text[text.index("Rollouts of a step") :]
            assert re.findall(r'<li><a href="[^"]*" title="([^"]*)"', steps) == groups
        assert link("sums", "trace", task="a", rollout=2).replace("&", "&amp;") in steps, "the second epoch of a"
        assert "Version 99 is not there" in await pages.get(link("sums", "training", step=99))


async def test_held_out_tasks_before_and_after_are_pages_of_their_own(folder):
    async with open_pages(folder) as pages:
        text = await pages.get(link("sums", "training"))
        assert "8 tasks better, 0 worse" in text
        task = re.findall(r'<option value="([^"]*)"', text)[3]
        text = await pages.get(link("sums", "training", task=task))
        assert "version 0" in text
        assert "version 4" in text
        for place in ("000000", "000004"):
            trace = link(f"sums@{place}", "trace", task=task, rollout=0)
            assert trace.replace("&", "&amp;") in text
            assert task in await pages.get(trace)
            assert f'href="{link(f"sums@{place}", "group", task=task)}"' in await pages.get(link(f"sums@{place}"))
        assert (await pages.get(compare_link(["sums@000000", "sums@000004"]))).count(">solved<") == 8
        await pages.get(link("sums", "training", task="no such task"), 404)


@pytest.mark.parametrize("name", ["sums@", "@000000", "sums@..", "sums@000001", "sums@../000000", "sums@000000@000000", "@"])
async def test_a_name_that_is_no_evaluation_is_not_found(folder, name):
    async with open_pages(folder) as pages:
        await pages.get(link(name), 404)


async def test_a_run_that_is_no_training_and_a_damaged_recipe_are_said(folder, tmp_path):
    async with open_pages(folder / "sums" / "evaluations") as pages:
        assert "is not a training" in await pages.get(link("000000", "training"), 404)
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "manifest.json").write_bytes((folder / "sums" / "manifest.json").read_bytes())
    (tmp_path / "bad" / "recipe.json").write_text("{")
    async with open_pages(tmp_path) as pages:
        assert "cannot be read" in await pages.get(link("bad", "training"), 404)
        assert "problem" in await pages.get(link("bad", "training/charts"), 404)
        assert "cannot be read" in await pages.get(link("bad", "training/live"), 404)


async def test_a_training_without_a_step_or_an_evaluation_has_a_page(folder):
    (folder / "sums" / FILE).write_bytes(b"")
    async with open_pages(folder) as pages:
        text = await pages.get(link("sums", "training"))
        assert "None yet" in text
        charts = json.loads(await pages.get(link("sums", "training/charts")))["charts"]
        assert all(series["points"] == [] for chart in charts for series in chart["series"])


async def test_a_live_training_sends_word_of_every_line_it_writes(folder):
    place = folder / "sums"
    async with open_pages(folder) as pages:
        with write_lock(place):
            answer = await pages.session.get(URL(pages.address(link("sums", "training/live")), encoded=True))
            first = msgspec.json.decode((await answer.content.readline()).removeprefix(b"data: "))
            assert first == {"live": True, "lines": 8, "doing": "step 4: 0 of at least 4 rollouts, 0 in flight"}
            with (place / FILE).open("ab") as out:
                out.write(msgspec.json.encode(step(4)) + b'\n{"is":"step","version":5,"rew')
            await answer.content.readline()
            with anyio.fail_after(15):
                second = msgspec.json.decode((await answer.content.readline()).removeprefix(b"data: "))
            assert second["lines"] == 9, "half a line does not count"
        with anyio.fail_after(15):
            assert b'"live":false' in await answer.content.read()
