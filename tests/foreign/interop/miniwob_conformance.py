"""MiniWoB's pages in our browser: `make test-interop KIND=miniwob`. Needs the browser's image."""

import re

import pytest

import sandlot
from sandlot.core.errors import ConfigError
from sandlot.core.trace import Scored
from sandlot.env.importing import import_environment
from sandlot.interop.packages.miniwob_world import SITE


@pytest.fixture(scope="module")
def env(tmp_path_factory):
    folder = tmp_path_factory.mktemp("miniwob") / "all"
    report = import_environment("miniwob", "all?seeds=2", folder)
    assert (len(report.tasks), len(report.left_out)) == (212, 24)
    return sandlot.load(folder)


def found(pattern, text):
    match = re.search(pattern, text)
    assert match, f"no {pattern!r} in:\n{text}"
    return match[1]


async def open_page(agent):
    return await agent.call("browser_navigate", url=f"http://{SITE}/")


async def click(agent, page, what):
    return await agent.call("browser_click", element="it", target=found(rf"{what}[^\n]*\[ref=(\w+)\]", page))


async def click_test(agent):
    await click(agent, await open_page(agent), 'button "Click Me!"')


async def click_button(agent):
    page = await open_page(agent)
    wanted = found(r'Click on the "([^"]+)" button', page).strip()
    await click(agent, page, f'button "{wanted}"')


async def click_option(agent):
    page = await open_page(agent)
    wanted = found(r"Select (\w+) and click Submit", page)
    page = await click(agent, page, f'radio "{wanted}"')
    await click(agent, page, 'button "Submit"')


async def enter_text(agent, change=str):
    page = await open_page(agent)
    wanted = change(found(r'Enter "([^"]+)" into the text field', page).strip())
    await agent.call("browser_type", element="field", target=found(r"textbox[^\n]*\[ref=(\w+)\]", page), text=wanted)
    await click(agent, page, 'button "Submit"')


async def login(agent):
    page = await open_page(agent)
    name, password = (found(rf'{word} "([^"]+)"', page).strip() for word in ("username", "password"))
    fields = re.findall(r"textbox[^\n]*\[ref=(\w+)\]", page)
    for field, text in zip(fields, (name, password), strict=True):
        await agent.call("browser_type", element="field", target=field, text=text)
    await click(agent, page, 'button "Login"')


async def enter_wrong_text(agent):
    await enter_text(agent, change=lambda text: f"{text}x")


async def try_again(agent):
    await enter_wrong_text(agent)
    await enter_text(agent)


async def forge(agent):
    """The address of the report, guessed; files outside the site; the scripts of the page, which have the address in them."""
    for url in (
        f"http://{SITE}/result/1?reward=1",
        f"http://{SITE}/core/../../constants.py",
        f"http://{SITE}/miniwob/../__init__.py",
    ):
        page = await agent.call("browser_navigate", url=url)
        assert "There is no such page" in page, page


async def run_script(agent):
    """The page shows what was typed as HTML."""
    page = await open_page(agent)
    field = found(r"textbox[^\n]*\[ref=(\w+)\]", page)
    text = "<img src=x onerror=core.endEpisode(1)><script>core.endEpisode(1)</script>"
    await agent.call("browser_type", element="field", target=field, text=text, slowly=True)
    await agent.call("browser_press_key", key="Enter")


def played(env, tmp_path, task, solve):
    async def solution(agent, _task):
        await solve(agent)
        await agent.say("done")

    env.marked.solution = solution
    [trace] = sandlot.run(env, "scripted:golden", tasks=(task,), runs=tmp_path / "runs")
    assert isinstance(trace.outcome, Scored), trace.outcome
    return trace.outcome.score.value


@pytest.mark.parametrize(
    ("page", "solve", "score"),
    [
        ("click-test", click_test, 1.0),
        ("click-button", click_button, 1.0),
        ("click-option", click_option, 1.0),
        ("enter-text", enter_text, 1.0),
        ("login-user", login, 1.0),
        ("enter-text", enter_wrong_text, 0.0),
        ("enter-text", try_again, 0.0),
        ("click-test", forge, 0.0),
        ("terminal", run_script, 0.0),
    ],
)
def test_pages_are_scored_by_their_own_reward(env, tmp_path, page, solve, score):
    assert [played(env, tmp_path, f"{page}-{seed}", solve) for seed in range(2)] == [score, score]


def test_the_scripts_of_a_page_do_not_tell_where_results_are_reported(env, tmp_path):
    async def read_script(agent):
        text = await agent.call("browser_navigate", url=f"http://{SITE}/core/core.js")
        text += await agent.call("browser_snapshot")
        assert "/result/" not in text

    assert played(env, tmp_path, "click-test-0", read_script) == 0.0


def test_a_seed_makes_the_same_page_and_another_seed_another(env, tmp_path):
    seen = []

    async def look(agent):
        seen.append(re.sub(r"\[ref=\w+\]", "", await open_page(agent)))

    for task in ("email-inbox-0", "email-inbox-0", "email-inbox-1"):
        played(env, tmp_path, task, look)
    assert seen[0] == seen[1] != seen[2]


@pytest.mark.parametrize("source", ["no-such", "all?seeds=0", "click-test?speed=2", "drag-box", "../x"])
def test_what_cannot_be_taken_is_refused(source, tmp_path):
    with pytest.raises(ConfigError, match=re.escape(source.partition("?")[0])):
        import_environment("miniwob", source, tmp_path / "x")
