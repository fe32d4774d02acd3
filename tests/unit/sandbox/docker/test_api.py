import contextlib
import socket

import anyio
import pytest

from sandlot.core.errors import ConfigError, SandboxError
from sandlot.sandbox.docker.api import DockerApi, find_socket, open_docker_api

VERSION = b'{"ApiVersion": "1.41", "Version": "1"}'


def answer(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nContent-Type: application/json\r\n\r\n".encode() + body


async def with_answers(path, *answers: bytes, work):
    """Do `work` on an engine that says its version and then these answers, one to a request."""
    waiting = [answer(VERSION), *answers]

    async def serve(stream):
        async with stream:
            while waiting:
                await stream.receive()
                await stream.send(waiting.pop(0))

    async def each(stream):
        with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            await serve(stream)

    async with await anyio.create_unix_listener(path) as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, each)
        async with open_docker_api(str(path)) as docker:
            await work(docker)
        group.cancel_scope.cancel()


async def test_a_missing_socket_is_an_error_with_the_fix(tmp_path):
    with pytest.raises(ConfigError, match=r"no Docker engine at .*there is no such socket.*--sandbox docker:"):
        async with open_docker_api(str(tmp_path / "none.sock")):
            pass


async def test_a_socket_without_a_listener_is_an_error(tmp_path):
    with socket.socket(socket.AF_UNIX) as old:
        old.bind(str(tmp_path / "old.sock"))
    with pytest.raises(ConfigError, match="no process listens"):
        async with open_docker_api(str(tmp_path / "old.sock")):
            pass


async def test_a_socket_of_another_server_is_an_error(tmp_path):
    async def hang_up(stream):
        await stream.aclose()

    async with await anyio.create_unix_listener(tmp_path / "s") as listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, hang_up)
        with pytest.raises(ConfigError, match="is it a Docker engine's socket"):
            async with open_docker_api(str(tmp_path / "s")):
                pass
        group.cancel_scope.cancel()


async def test_a_refusal_carries_the_engines_words(tmp_path):
    async def work(docker: DockerApi):
        with pytest.raises(SandboxError, match="no space left"):
            await docker.create({})

    await with_answers(tmp_path / "s", answer(b'{"message": "no space left"}', "500 Oops"), work=work)


@pytest.mark.parametrize("body", [b"", b"[]", b'{"Id": 3}', b"\xff\xfe", b'{"Id"'])
async def test_an_answer_not_as_the_api_says_is_the_engines_failure(tmp_path, body):
    async def work(docker: DockerApi):
        with pytest.raises(SandboxError, match="does not match its API"):
            await docker.create({})

    await with_answers(tmp_path / "s", answer(body, "201 Created"), work=work)


async def test_no_changes_at_all_are_an_empty_list(tmp_path):
    async def work(docker: DockerApi):
        assert await docker.changed_paths("x") == []

    await with_answers(tmp_path / "s", answer(b"null\n"), work=work)


async def test_an_engine_that_refuses_to_attach_is_an_error_and_its_connection_closed(tmp_path):
    async def work(docker: DockerApi):
        with pytest.raises(SandboxError, match=r"refused to attach.*409"):
            await docker.attach("x")

    await with_answers(tmp_path / "s", answer(b"no", "409 Conflict"), work=work)


async def test_what_is_not_there_any_more_needs_no_removing(tmp_path):
    async def work(docker: DockerApi):
        await docker.remove("x")

    await with_answers(tmp_path / "s", answer(b"{}", "404 Not Found"), work=work)


def test_the_socket_is_the_one_named_then_the_environments_then_the_usual(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "unix:///run/mine.sock")
    assert find_socket("/run/x.sock") == find_socket("unix:///run/x.sock") == "/run/x.sock"
    assert find_socket() == "/run/mine.sock"
    monkeypatch.delenv("DOCKER_HOST")
    assert find_socket() == "/var/run/docker.sock"


@pytest.mark.parametrize("named", ["tcp://1.2.3.4:2375", "ssh://host", "docker.sock"])
def test_an_engine_elsewhere_is_refused(named):
    with pytest.raises(ConfigError, match="on this machine"):
        find_socket(named)
