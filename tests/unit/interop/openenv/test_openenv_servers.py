"""Servers that we start ourselves: an environment's folder or package, and what it can do to us.

The Python that runs them has a package with uvicorn's interface which serves applications of aiohttp. The real packages are in
`tests/foreign/interop/openenv_import_conformance.py`.
"""

import json
import os
import py_compile
import signal
import site
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from urllib.parse import urlencode

import anyio
import pytest

import sandlot
from sandlot.core.errors import ConfigError, SandboxError
from sandlot.core.trace import Message, ToolCall
from sandlot.core.types import End, Role
from sandlot.env.importing import import_environment
from sandlot.interop.openenv import client as client_module
from sandlot.interop.openenv.importer import OpenEnvImporter
from sandlot.interop.openenv.servers import OwnServerProcess
from sandlot.interop.openenv.source import read_source

UVICORN = """
import asyncio
from aiohttp import web

class Config:
    def __init__(self, app, uds, log_level, access_log):
        self.app, self.uds = app, uds

class Server:
    started = False

    def __init__(self, config):
        self.config = config

    async def serve(self):
        runner = web.AppRunner(self.config.app)
        await runner.setup()
        await web.UnixSite(runner, self.config.uds).start()
        self.started = True
        await asyncio.Event().wait()
"""
APP = """
import json, os, sys, time
from aiohttp import web
from models import SCHEMA

async def connect(request):
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    async for message in socket:
        asked = json.loads(message.data)
        number = asked["data"].get("number", 0) if asked["type"] == "step" else 0
        if number == 66:
            time.sleep(3600)
        if number == 99:
            sys.stderr.write("I fell over")
            os._exit(3)
        seen = {"number": number, "pid": os.getpid() if number else 0, "variables": sorted(os.environ) if number else []}
        reply = {"observation": seen, "reward": 0.5 if number else None, "done": number == 2}
        await socket.send_json({"type": "observation", "data": reply})
    return socket

async def schema(request):
    return web.json_response(SCHEMA)

app = web.Application()
app.add_routes([web.get("/ws", connect), web.get("/schema", schema)])
"""
MODELS = 'SCHEMA = {"action": {"properties": {"number": {"type": "integer"}}, "required": ["number"]}}\n'


@pytest.fixture(autouse=True)
def own_temporary_folder(monkeypatch):
    """Other tests start servers too; and pytest's own folders have names that are too long for a socket."""
    with tempfile.TemporaryDirectory(prefix="oe", dir="/tmp", ignore_cleanup_errors=True) as place:
        monkeypatch.setattr(tempfile, "tempdir", place)
        monkeypatch.setenv("TMPDIR", place)
        yield


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    folder = tmp_path_factory.mktemp("openenv")
    venv.create(folder / "venv", with_pip=False, symlinks=True)
    (packages,) = (folder / "venv" / "lib").glob("python3*/site-packages")
    (packages / "uvicorn.py").write_text(UVICORN)
    (packages / "openenv_core-0.3.0.dist-info").mkdir()
    (packages / "openenv_core-0.3.0.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: openenv-core\nVersion: 0.3.0\n"
    )
    (packages / "ours.pth").write_text("\n".join(site.getsitepackages()))
    return str(folder / "venv" / "bin" / "python")


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "small_env"
    (place / "server").mkdir(parents=True)
    (place / "server" / "app.py").write_text(APP)
    (place / "models.py").write_text(MODELS)
    (place / "openenv.yaml").write_text("spec_version: 1\nname: small\napp: server.app:app  # what is served\nport: 8000\n")
    return place


def source(place, python, **options):
    return f"{place}?{urlencode({'python': python, 'seeds': 1, **options})}"


def imported(place, python, tmp_path, **options):
    import_environment("openenv", source(place, python, **options), tmp_path / "env")
    return sandlot.load(tmp_path / "env")


class Lost(Exception):  # noqa: N818 - an end, not an error
    """The rollout is lost by a crash; the message says which."""


def play(env, *numbers):
    """What the environment shows after each number, and the state."""

    async def run():
        async with env.session("seed-0") as session:
            await session.reset()
            seen = []
            for number in numbers:
                step = await session.step(Message(role=Role.ASSISTANT, parts=(ToolCall("c", "act", {"number": number}),)))
                seen.append(step.messages[0].results[0].text)
            record = await session.gather("")
            if record.crashed:
                raise Lost(record.crashed[""])
            return seen, record.state

    return anyio.run(run)


def shown(text):
    return json.JSONDecoder().raw_decode(text)[0]


def sockets():
    return set(Path(tempfile.gettempdir()).glob("sandlot-openenv-*"))


def test_a_folder_is_imported_and_played_by_its_own_server(folder, python, tmp_path):
    env = imported(folder, python, tmp_path)
    seen, state = play(env, 1, 2)
    assert (state["rewards"], state["done"]) == ([0.5, 0.5], True)
    again, _ = play(env, 1)
    assert shown(again[0])["pid"] == shown(seen[0])["pid"]  # one process serves many rollouts


def test_a_source_can_be_run_without_a_copy(folder, python, tmp_path):
    run = sandlot.run(f"openenv:{source(folder, python)}", "scripted:noop", runs=tmp_path / "runs")
    assert [row.score for row in run.rows] == [0.0]


def test_a_package_is_imported_by_its_name(folder, python, tmp_path):
    (packages,) = (Path(python).parents[1] / "lib").glob("python3*/site-packages")
    place = packages / "small_package"
    (place / "server").mkdir(parents=True)
    for name in ("__init__.py", "server/__init__.py"):
        (place / name).write_text("")
    (place / "server" / "app.py").write_text(APP.replace("from models", "from small_package.models"))
    (place / "models.py").write_text(MODELS)
    _, state = play(imported("small-package", python, tmp_path), 1)
    assert state["rewards"] == [0.5]
    with pytest.raises(ConfigError, match="no package `other_package`"):
        read_source(source("other-package", python))


def test_it_gets_only_the_variables_that_are_named(folder, python, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("WANTED", "yes")
    seen, _ = play(imported(folder, python, tmp_path, variables="WANTED"), 1)
    assert "WANTED" in shown(seen[0])["variables"]
    assert "OPENAI_API_KEY" not in shown(seen[0])["variables"]


def test_a_server_that_does_not_answer_is_ended_and_started_again(folder, python, tmp_path, monkeypatch):
    env = imported(folder, python, tmp_path)
    first = shown(play(env, 1)[0][0])["pid"]
    monkeypatch.setattr(client_module, "ANSWER_S", 1.0)
    with pytest.raises(Lost, match="did not answer `step`"):
        play(env, 66)
    monkeypatch.setattr(client_module, "ANSWER_S", 60.0)
    assert shown(play(env, 1)[0][0])["pid"] != first


def test_a_server_that_ends_is_quoted_and_started_again(folder, python, tmp_path):
    env = imported(folder, python, tmp_path)
    with pytest.raises(Lost, match="I fell over"):
        play(env, 99)
    assert play(env, 1)[1]["rewards"] == [0.5]


def test_a_server_that_another_rollout_ended_is_no_doing_of_this_one(folder, python, tmp_path):
    """It is the sandbox's failure, which is tried again."""
    env = imported(folder, python, tmp_path)
    act = [Message(role=Role.ASSISTANT, parts=(ToolCall("c", "act", {"number": number}),)) for number in (1, 99)]

    async def run():
        async with env.session("seed-0") as one, env.session("seed-0") as other:
            await one.reset(), await other.reset()
            assert (await other.step(act[1])).end is End.DONE
            with pytest.raises(SandboxError, match="I fell over") as caught:
                await one.step(act[0])
            assert caught.value.kind == "gone"

    anyio.run(run)


def test_files_that_have_changed_are_not_served(folder, python, tmp_path):
    env = imported(folder, python, tmp_path)
    (folder / "models.py").write_text(MODELS + "more = 1\n")
    with pytest.raises(ConfigError, match="have changed"):
        play(env, 1)


@pytest.mark.parametrize("inner", ["venv", "server/venv", "server/.venv"])
def test_only_an_environment_of_python_at_the_top_is_passed_over(folder, python, inner):
    before = OpenEnvImporter().digest(source(folder, python))
    (folder / inner).mkdir()
    (folder / inner / "app.py").write_text(APP)
    if inner != "venv":
        (folder / inner / "pyvenv.cfg").write_text("")
    assert OpenEnvImporter().digest(source(folder, python)) != before


@pytest.mark.parametrize("app", ["venv.app:app", "server.__pycache__.app:app"])
def test_what_is_not_in_the_digest_is_not_served(folder, python, app):
    (folder / "venv").mkdir()
    (folder / "venv" / "pyvenv.cfg").write_text("")
    with pytest.raises(ConfigError, match="is passed over"):
        read_source(source(folder, python, app=app))


def test_a_compiled_file_is_not_served_for_its_source(folder, python, tmp_path):
    env = imported(folder, python, tmp_path)
    (tmp_path / "other.py").write_text(APP.replace("0.5 if", "1.0 if"))
    place = folder / "server" / "__pycache__" / f"app.{sys.implementation.cache_tag}.pyc"
    py_compile.compile(str(tmp_path / "other.py"), str(place), invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
    assert play(env, 1)[1]["rewards"] == [0.5]


def test_a_server_may_write_into_its_folder(folder, python, tmp_path):
    with (folder / "server" / "app.py").open("a") as app:
        app.write("\nopen('server.log', 'a').write('started')\nopen(__file__, 'a').write('# more')\n")
    env = imported(folder, python, tmp_path)
    assert play(env, 1)[1]["rewards"] == [0.5]
    assert not (folder / "server.log").exists()


def test_a_python_with_a_relative_path_is_the_same_everywhere(folder, python, tmp_path, monkeypatch):
    monkeypatch.chdir(Path(python).parents[2])
    (folder / "venv" / "bin").mkdir(parents=True)
    (folder / "venv" / "pyvenv.cfg").write_text("")
    (folder / "venv" / "bin" / "python").write_text("#!/bin/sh\nexit 1")
    (folder / "venv" / "bin" / "python").chmod(0o755)
    assert play(imported(folder, "venv/bin/python", tmp_path), 1)[1]["rewards"] == [0.5]


def test_the_digest_changes_with_the_code_and_not_with_what_python_writes(folder, python):
    importer, named = OpenEnvImporter(), source(folder, python)
    before = importer.digest(named)
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "models.cpython-311.pyc").write_bytes(b"x")
    (folder / ".venv").mkdir()
    (folder / ".venv" / "pyvenv.cfg").write_text("home = /usr/bin")
    (folder / ".venv" / "python").symlink_to(python)
    assert importer.digest(named) == before
    (folder / "models.py").write_text("")
    assert importer.digest(named) != before


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda place: (place / "server" / "app.py").write_text("raise RuntimeError('no key')"), "no key"),
        (lambda place: (place / "server" / "app.py").write_text("import nothing_of_this_name"), "have what"),
        (lambda place: (place / "server" / "app.py").write_text("import os\nos._exit(7)"), "has ended"),
        (lambda place: (place / "server" / "app.py").write_text("x = 1"), "'app'"),
        (lambda place: (place / "openenv.yaml").unlink(), "has no `openenv.yaml`"),
        (lambda place: (place / "openenv.yaml").write_text("name: x\n"), "no line such as"),
        (lambda place: (place / "openenv.yaml").write_text("app: os:system('x')\n"), "no line such as"),
        (lambda place: (place / "openenv.yaml").write_text("app: ../../etc:x\n"), "not named as"),
        (lambda place: (place / "openenv.yaml").write_text("#" * 100_000), "at most"),
        (lambda place: (place / "away").symlink_to("/etc"), "is a link"),
        (lambda place: os.mkfifo(place / "pipe"), "is a pipe"),
    ],
)
def test_a_folder_that_cannot_be_served_says_why_and_leaves_nothing(folder, python, tmp_path, change, told):
    change(folder)
    before = sockets()
    with pytest.raises(ConfigError, match=told):
        imported(folder, python, tmp_path)
    assert sockets() <= before
    assert not (tmp_path / "env").exists()


def test_a_manifest_that_is_a_link_is_refused(folder, python):
    (folder / "openenv.yaml").rename(folder / "other.yaml")
    (folder / "openenv.yaml").symlink_to("other.yaml")
    with pytest.raises(ConfigError, match="is a link"):
        read_source(source(folder, python))


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("some/folder", {}, "no folder"),
        ("no package", {}, "no name of a package"),
        ("small_env", {"token_variable": "A_TOKEN"}, "unknown `token_variable`"),
        ("small_env", {"python": "/no/such/python"}, "cannot be run"),
        ("small_env", {"python": sys.executable}, "`openenv-core` is not installed"),
    ],
)
def test_a_wrong_source_says_what_is_wrong(python, name, options, told):
    with pytest.raises(ConfigError, match=told):
        read_source(source(name, **({"python": python} | options)))


def test_the_server_and_its_socket_end_with_us(folder, python):
    before = sockets()
    server = OwnServerProcess(read_source(source(folder, python)).server)
    (place,) = sockets() - before
    assert (place.stat().st_mode & 0o777, server.alive) == (0o700, True)
    server.close()
    server.close()
    assert (sockets() <= before, server.alive) == (True, False)


def test_nothing_is_left_when_we_are_killed(folder, python):
    code = (
        "import sys, time\n"
        "from sandlot.interop.openenv.servers import OwnServerProcess\n"
        "from sandlot.interop.openenv.source import read_source\n"
        "server = OwnServerProcess(read_source(sys.argv[1]).server)\n"
        "print(server.address.socket, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, source(folder, python)], stdout=subprocess.PIPE, text=True) as ours:
        place = Path(ours.stdout.readline().strip()).parent
        assert place.is_dir()
        ours.send_signal(signal.SIGKILL)
    while place.exists():  # the test's own time limit ends this
        time.sleep(0.05)
