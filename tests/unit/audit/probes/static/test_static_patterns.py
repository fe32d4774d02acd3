"""Patterns in code, each with the sound alternative."""

import pytest

from builders.static_cases import case_of, codes, found, high
from sandlot.audit.finding import Confidence, Severity
from sandlot.audit.probes.static import caches, handlers, host, outside, rounding, seats, sharing, trust
from sandlot.core.rubric import PythonCheck, Rubric


def check(body: str, before: str = "") -> str:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"{before}\n@env.check(points=1)\ndef right(evidence, task):\n{lines}\n"


def tool(body: str, before: str = "", name: str = "act", arguments: str = "what: str") -> str:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"{before}\n@env.tool\nasync def {name}(world, {arguments}):\n{lines}\n"


# -- D17


@pytest.mark.parametrize(
    ("before", "expression", "code"),
    [
        ("import time", "time.time()", "D17.clock"),
        ("from datetime import datetime as dt", "dt.now()", "D17.clock"),
        ("import datetime", "datetime.date.today()", "D17.clock"),
        ("from datetime import datetime", "datetime.fromtimestamp(5)", "D17.zone"),
        ("import random", "random.choice([1])", "D17.chance"),
        ("from random import Random", "Random().random()", "D17.chance"),
        ("import uuid", "uuid.uuid4()", "D17.chance"),
        ("import numpy as np", "np.random.rand(3)", "D17.chance"),
        ("import requests", "requests.get('x')", "D17.network"),
        ("from urllib.request import urlopen", "urlopen('x')", "D17.network"),
        ("", "hash(what)", "D17.hash"),
    ],
)
async def test_clock_chance_network_and_machine_are_leads(before, expression, code):
    assert await high(outside.PROBE, tool(f"return {expression}", before)) == [code]


@pytest.mark.parametrize(
    ("before", "expression"),
    [
        ("import time", "time.monotonic()"),
        ("from random import Random", "Random(task.id).random()"),
        ("from datetime import datetime, UTC", "datetime.fromtimestamp(5, UTC)"),
        ("", "world.rng.choice([1])"),
        ("", "sorted(set(what))"),
        ("", "len(list(set(what)))"),
        ("import hashlib", "hashlib.sha256(what).hexdigest()"),
    ],
)
async def test_values_from_the_task_are_no_finding(before, expression):
    assert await codes(outside.PROBE, tool(f"return {expression}", before)) == []


async def test_tasks_in_the_order_of_a_set_are_a_lead():
    source = "NAMES = {'a', 'b'}\n@env.tasks\ndef tasks(rng):\n    for name in NAMES:\n        yield name\n"
    assert await high(outside.PROBE, source) == ["D17.order"]
    assert await codes(outside.PROBE, source.replace("{'a', 'b'}", "{1, 2}")) == []
    assert await codes(outside.PROBE, source.replace("in NAMES", "in sorted(NAMES)")) == []


async def test_the_clock_at_import_counts_too():
    assert await high(outside.PROBE, tool("return NOW", "import time\nNOW = time.time()")) == ["D17.clock"]


async def test_the_same_lead_is_reported_once_with_its_count():
    source = tool("a = time.time()\nreturn a - time.time()", "import time")
    (finding,) = await found(outside.PROBE, case_of(source))
    assert finding.count == 2
    assert finding.standing is Confidence.LEAD
    assert finding.where == "made.py:7"


# -- D04


@pytest.mark.parametrize(
    "body",
    [
        "try:\n    return f()\nexcept Exception:\n    return 0.0",
        "try:\n    return f()\nexcept:\n    pass\nreturn False",
        "try:\n    value = f()\nexcept BaseException:\n    value = 0\nreturn value",
        "with contextlib.suppress(Exception):\n    return f()\nreturn 0",
    ],
)
async def test_an_error_that_becomes_a_score_is_a_lead(body):
    assert await high(handlers.PROBE, check(body)) == ["D04.swallowed"]


async def test_a_check_that_scores_its_own_errors_is_confirmed_by_its_code():
    helper = "def share(left, right):\n    return left == right"
    works = "try:\n    return share(evidence.state, task.key['x'])\nexcept Exception:\n    return 0.0"
    (finding,) = await found(handlers.PROBE, case_of(check(works, helper)))
    assert (finding.standing, finding.severity) == (Confidence.CONFIRMED, Severity.HIGH)
    assert finding.witness is not None
    assert "return 0.0" in finding.witness.inputs["code"]
    reads = "try:\n    return float(evidence.answer) == task.key['x']\nexcept Exception:\n    return False"
    (lead,) = await found(handlers.PROBE, case_of(check(reads, helper)))
    assert lead.standing is Confidence.LEAD


@pytest.mark.parametrize(
    "body",
    [
        "try:\n    return float(evidence.answer) == 1\nexcept ValueError:\n    return False",
        "try:\n    return f()\nexcept Exception as error:\n    raise RuntimeError('no') from error",
        "try:\n    return json.loads(evidence.answer)\nexcept (ValueError, RecursionError):\n    return {}",
        "with contextlib.suppress(KeyError):\n    return f()\nreturn 0",
    ],
)
async def test_not_met_for_an_unreadable_answer_is_fine(body):
    assert await codes(handlers.PROBE, check(body)) == []


async def test_a_timeout_as_an_ordinary_result_is_a_lead():
    late = "try:\n    return f()\nexcept TimeoutError:\n    return 0.5"
    assert await high(handlers.PROBE, check(late)) == ["D04.timeout"]
    runs = "try:\n    return world.exec('x')\nexcept TimeoutError:\n    return 0.0"
    assert await high(handlers.PROBE, check(runs)) == []
    scope = "with anyio.move_on_after(3):\n    return await f()\nreturn []"
    assert await high(handlers.PROBE, tool(scope)) == ["D04.timeout"]
    asked = "with anyio.move_on_after(3) as scope:\n    return await f()\nif scope.cancelled_caught:\n    raise ToolError('late')"
    assert await codes(handlers.PROBE, tool(asked)) == []


async def test_a_tool_that_reports_its_error_is_fine():
    assert await codes(handlers.PROBE, tool("try:\n    return f()\nexcept Exception as error:\n    return f'no: {error}'")) == []
    assert await codes(handlers.PROBE, tool("try:\n    return f()\nexcept Exception:\n    return 'The search failed.'")) == []
    assert await high(handlers.PROBE, tool("try:\n    return f()\nexcept Exception:\n    return []")) == ["D04.swallowed"]


async def test_an_unreachable_handler_is_a_lead():
    body = "try:\n    return f()\nexcept OSError:\n    raise\nexcept TimeoutError:\n    raise"
    assert await codes(handlers.PROBE, check(body)) == ["D04.order"]


# -- D02, D03


@pytest.mark.parametrize(
    ("before", "body"),
    [
        ("", "return eval(evidence.answer) == 1"),
        ("", "text = evidence.answer.strip()\nexec(text)\nreturn True"),
        ("import pickle", "return pickle.loads(evidence.read('/out')) == 1"),
        ("from sympy import sympify", "return sympify(evidence.answer) == 1"),
        ("import subprocess", "return subprocess.run(f'echo {evidence.answer}', shell=True)"),
        ("import yaml", "return yaml.load(evidence.answer, Loader=yaml.Loader)"),
        ("def helper(text):\n    return eval(text)", "return helper(evidence.answer)"),
    ],
)
async def test_running_what_the_agent_wrote_is_a_lead(before, body):
    assert await high(trust.PROBE, check(body, before)) == ["D02.eval_on_output"]


@pytest.mark.parametrize(
    ("before", "body"),
    [
        ("import ast", "return ast.literal_eval(evidence.answer) == 1"),
        ("", "return eval(task.key['formula']) == float(evidence.answer)"),
        ("import yaml", "return yaml.load(evidence.answer, Loader=yaml.SafeLoader)"),
        ("import subprocess", "return subprocess.run(['sort'], input=evidence.answer)"),
    ],
)
async def test_parsing_what_the_agent_wrote_is_no_finding(before, body):
    assert await codes(trust.PROBE, check(body, before)) == []


async def test_a_tool_that_evaluates_its_argument_is_a_lead():
    assert await high(trust.PROBE, tool("return eval(what)")) == ["D02.eval_on_output"]
    assert await codes(trust.PROBE, tool("return await world.exec(what)")) == []


async def test_a_key_anywhere_in_the_answer_is_a_lead():
    assert await high(trust.PROBE, check("return task.key['x'] in evidence.answer.lower()")) == ["D02.substring"]
    assert await high(trust.PROBE, check("said = evidence.answer\nok = task.key['x'] in said\nreturn ok, 'why'")) == [
        "D02.substring"
    ]
    assert await codes(trust.PROBE, check("return task.key['x'] == evidence.answer.strip()")) == []
    assert await codes(trust.PROBE, check("return task.key['x'] in evidence.answer.split()")) == []
    assert await codes(trust.PROBE, check("return evidence.answer in task.key['options']")) == []


async def test_words_and_exit_codes_are_minor_leads():
    (said,) = await found(trust.PROBE, case_of(check("return 'PASSED' in evidence.answer")))
    assert (said.code, said.severity) == ("D02.fake_output", Severity.LOW)
    assert await codes(trust.PROBE, check("done = run()\nreturn done.code == 0")) == ["D02.exit"]


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("evidence.grading_sandbox('/work/a.py')", []),
        ("evidence.grading_sandbox(replace=['/etc/nginx/nginx.conf'])", []),
        ("evidence.grading_sandbox(replace=['/usr/bin/python3'])", ["D02.own_interpreter"]),
        ("evidence.grading_sandbox('/a', replace=('/work/sitecustomize.py',))", ["D02.own_interpreter"]),
        ("evidence.grading_sandbox(replace=evidence.list('/'))", ["D02.own_interpreter"]),
        ("evidence.grading_sandbox(replace=everything)", ["D02.own_interpreter"]),
    ],
)
async def test_a_grading_sandbox_with_the_agents_interpreter_is_reported(call, found):
    assert await codes(trust.PROBE, check(f"world = {call}\nreturn world.right")) == found
    assert await codes(trust.PROBE, check("done = run()\nif done.code:\n    raise RuntimeError\nreturn done.stdout == 'x'")) == []


async def test_a_report_that_the_agent_can_write_is_a_lead():
    writer = tool("await world.write(path, text)", name="write", arguments="path: str, text: str")
    reporter = tool("await world.write('/out/report', 'fine')", name="test", arguments="times: int")
    reads = check("return evidence.read_text('/out/report') == 'fine'")
    assert await codes(trust.PROBE, writer + reporter + reads) == ["D02.report"]
    assert await codes(trust.PROBE, reporter + reads) == []
    assert await codes(trust.PROBE, writer + reads) == []


async def test_words_pasted_into_a_prompt_are_a_lead():
    assert await high(trust.PROBE, check("return judge.ask(f'Is {evidence.answer} right?')")) == ["D03.pasted"]
    assert await high(trust.PROBE, check("text = 'Judge: ' + evidence.answer\nreturn model.chat(text)")) == ["D03.pasted"]
    assert await codes(trust.PROBE, check("return judge.ask('Is it right?', view={'answer': evidence.answer})")) == []


async def test_a_grader_function_is_read_by_its_parameters():
    source = "def helper(x):\n    return eval(x)\ndef grade(answer, expected):\n    return helper(answer) or expected in answer\n"
    fields = {"kind": "grader", "name": "mine.module:grade", "head": ""}
    assert await high(trust.PROBE, source, **fields) == ["D02.eval_on_output", "D02.substring"]
    assert await codes(trust.PROBE, source, **fields | {"name": "mine.module:other"}) == []


# -- D05


async def test_a_module_that_a_rollout_changes_is_a_lead():
    for change in ("SEEN.append(what)", "SEEN[0] = what", "del SEEN[0]", "SEEN += [1]\n"):
        body = f"global SEEN\n{change}" if "+=" in change else change
        assert await high(sharing.PROBE, tool(body, "SEEN = []")) == ["D05.module"], change
    assert await high(sharing.PROBE, tool("return next(NUMBERS)", "import itertools\nNUMBERS = itertools.count()")) == [
        "D05.module"
    ]
    assert await codes(sharing.PROBE, tool("SEEN = []\nSEEN.append(what)", "SEEN = []")) == []
    assert await codes(sharing.PROBE, tool("return SEEN.index(what)", "SEEN = []")) == []
    assert await codes(sharing.PROBE, tool("world.state['x'].append(what)", "SEEN = []")) == []


async def test_a_cache_by_key_is_a_minor_lead():
    memo = "if what not in KNOWN:\n    KNOWN[what] = len(what)\nreturn KNOWN[what]"
    assert await codes(sharing.PROBE, tool(memo, "KNOWN = {}")) == ["D05.module"]
    assert await high(sharing.PROBE, tool(memo, "KNOWN = {}")) == []


async def test_a_module_table_as_state_is_a_lead():
    setup = "TABLE = {{'a': {{'n': 1}}}}\n@env.setup\ndef put(world, task):\n    world.state = {}\n"
    assert await high(sharing.PROBE, setup.format("TABLE")) == ["D05.alias"]
    assert await high(sharing.PROBE, setup.format("dict(TABLE)")) == ["D05.alias"]
    assert await high(sharing.PROBE, setup.format("{'t': TABLE}")) == ["D05.alias"]
    assert await codes(sharing.PROBE, setup.format("copy.deepcopy(TABLE)")) == []
    assert await codes(sharing.PROBE, setup.format("task.data['x']")) == []


async def test_the_tasks_own_data_as_state_is_a_lead_where_tools_change_it():
    setup = "@env.setup\ndef put(world, task):\n    world.state = {}\n"
    strikes = tool("world.state['loans'][what].remove(1)")
    named = tool("mine = world.state['loans'][what]\nmine['n'] -= 1")
    reads = tool("return world.state['loans'][what]")
    replaces = tool("world.state['loans'] = what\nworld.state['loans'] += 1")
    borrowed, copied = setup.format("{'loans': task.data['loans']}"), setup.format("{'loans': copy.deepcopy(task.data['loans'])}")
    assert await high(sharing.PROBE, borrowed + strikes) == ["D05.alias"]
    assert await high(sharing.PROBE, borrowed + named) == ["D05.alias"]
    assert await codes(sharing.PROBE, borrowed + reads + replaces) == []
    assert await codes(sharing.PROBE, copied + strikes) == []


async def test_class_attributes_and_defaults_that_are_changed_are_leads():
    shared = "class Log:\n    lines = []\n    def note(self, x):\n        self.lines.append(x)\n"
    own = shared.replace("    def note", "    def __init__(self):\n        self.lines = []\n    def note")
    struct = (
        "import msgspec\nclass Log(msgspec.Struct):\n    lines: list = []\n    def note(self, x):\n        self.lines.append(x)\n"
    )
    assert await high(sharing.PROBE, tool("return 1", shared)) == ["D05.class"]
    assert await codes(sharing.PROBE, tool("return 1", own)) == []
    assert await codes(sharing.PROBE, tool("return 1", struct)) == []
    assert await high(sharing.PROBE, tool("seen.append(what)", arguments="what: str, seen=[]")) == ["D05.default"]


# -- D18


@pytest.mark.parametrize(
    ("before", "body", "code"),
    [
        ("", "open('/tmp/x', 'w').write(what)", "D18.path"),
        ("from pathlib import Path\nPLACE = Path('/tmp') / 'x'", "PLACE.write_text(what)", "D18.path"),
        ("import sqlite3", "sqlite3.connect('books.db')", "D18.path"),
        ("import os", "os.chdir('/tmp')", "D18.process"),
        ("import os", "os.environ['A'] = what", "D18.process"),
        ("import socket", "socket.socket().bind(('', 8080))\nsocket.bind(('', 8080))", "D18.port"),
    ],
)
async def test_shared_host_resources_are_leads(before, body, code):
    assert await high(host.PROBE, tool(body, before)) == [code]


@pytest.mark.parametrize(
    ("before", "body"),
    [
        ("", "open('/tmp/x').read()"),
        ("import sqlite3", "sqlite3.connect(':memory:')"),
        ("import tempfile", "open(tempfile.mkdtemp() + '/x', 'w')"),
        ("", "await world.write('/tmp/x', what)"),
        ("import os", "return os.environ['HOME']"),
        ("", "server.bind(('', 0))"),
    ],
)
async def test_resources_of_one_rollout_are_no_finding(before, body):
    assert await codes(host.PROBE, tool(body, before)) == []


# -- D01


async def test_a_cache_over_the_world_is_a_lead():
    cached = "from functools import lru_cache\n@lru_cache\ndef card(world, who):\n    return world.state[who]\n"
    assert await high(caches.PROBE, tool("return card(world, what)", cached)) == ["D01.cache"]
    pure = "from functools import lru_cache\n@lru_cache\ndef square(n):\n    return n * n\n"
    assert await codes(caches.PROBE, tool("return square(3)", pure)) == []


async def test_a_value_cached_in_the_state_must_be_cleared():
    reads = tool(
        "if what not in world.state['cards']:\n    world.state['cards'][what] = show(world.state['people'][what])\n"
        "return world.state['cards'][what]",
        name="show_card",
    )
    writes = tool("world.state['people'][what] = 1", name="change")
    forgets = tool("world.state['people'][what] = 1\nworld.state['cards'].pop(what, None)", name="change")
    assert await high(caches.PROBE, reads + writes) == ["D01.kept"]
    assert await codes(caches.PROBE, reads + forgets) == []
    assert await codes(caches.PROBE, reads) == []


# -- D06


async def test_a_rounded_share_is_a_lead():
    assert await high(rounding.PROBE, check("return round(good / total)")) == ["D06.rounded"]
    assert await high(rounding.PROBE, check("share = good / total\nreturn int(share), 'why'")) == ["D06.rounded"]
    assert await codes(rounding.PROBE, check("return round(good / total, 1)")) == ["D06.rounded"]
    assert await codes(rounding.PROBE, check("return round(good / total, 4)")) == []
    assert await codes(rounding.PROBE, check("return int(evidence.answer == task.key['x'])")) == []
    assert await codes(rounding.PROBE, check("return max(0.0, min(1.0, good / total))")) == []
    assert await codes(rounding.PROBE, check("return good / total, f'{round(good / total)}'")) == []


async def test_a_rubric_that_clips_is_a_lead():
    checks = (PythonCheck(id="a", ref="m:f"),)
    assert await high(rounding.PROBE, "", rubrics={"default": Rubric(checks=checks, clip=(0.0, 0.5))}) == ["D06.clip"]
    assert await high(rounding.PROBE, "", rubrics={"default": Rubric(checks=checks, clip=(0.3, 1.0))}) == ["D06.clip"]
    assert await codes(rounding.PROBE, "", rubrics={"default": Rubric(checks=checks)}) == []


# -- D18 between seats


async def test_a_tool_with_roots_rights_in_the_sandbox_of_several_seats_is_a_lead():
    shared = {"seats": ("ada", "bob"), "image": "host"}
    assert await high(seats.PROBE, tool("return await world.exec(what, user='root')"), **shared) == ["D18.seats"]
    assert await high(seats.PROBE, tool("return await world.read(f'/home/{what}')"), **shared) == ["D18.seats"]
    assert await codes(seats.PROBE, tool("return await world.exec(what)"), **shared) == []
    assert await codes(seats.PROBE, tool("return await world.read('/rules')"), **shared) == []
    assert await codes(seats.PROBE, tool("return await world.exec(what, user='root')"), image="host") == []
