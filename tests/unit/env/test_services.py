"""Services inside: started by setup, ready when they say, reached from outside without a network."""

import anyio
import pytest

from sandlot.core.errors import AuthorError
from sandlot.core.task import Task
from sandlot.env.environment import Environment
from sandlot.env.session import open_session
from sandlot.sandbox.native.backend import open_native

TASK = Task("one", prompt="go")
PORT = "python3 -m http.server 8080 --bind 127.0.0.1 --directory /srv"
SOCKET = """python3 -c '
import socket
server = socket.socket(socket.AF_UNIX)
server.bind("/run/echo")
server.listen()
while True:
    client, _ = server.accept()
    if asked := client.recv(100):
        client.sendall(asked[::-1])
    client.close()
'"""


@pytest.fixture
async def world():
    env = Environment("services", image="host")
    async with open_native() as backend, open_session(env, TASK, backend=backend) as session:
        yield session.world


async def received(stream):
    with anyio.fail_after(10):
        pieces = []
        while piece := await stream.receive():
            pieces.append(piece)
        return b"".join(pieces)


async def test_a_server_started_in_the_world_is_reached_from_outside_and_from_inside(world):
    await world.write("/srv/page.txt", "hello")
    await world.start(PORT, ready=8080)
    stream = await world.connect(8080)
    await stream.send(b"GET /page.txt HTTP/1.0\r\n\r\n")
    assert (await received(stream)).endswith(b"hello")
    fetch = "python3 -c 'import urllib.request as u; print(u.urlopen(\"http://127.0.0.1:8080/page.txt\").read())'"
    assert (await world.exec(fetch)).stdout == "b'hello'\n"


async def test_a_unix_socket_is_a_place_to_be_ready_at(world):
    await world.start(SOCKET, ready="/run/echo")
    stream = await world.connect("/run/echo")
    await stream.send(b"abc")
    assert await received(stream) == b"cba"


async def test_a_service_without_readiness_runs_until_it_is_killed(world):
    await world.exec("mkfifo /started")
    process = await world.start("echo $$ > /pid; echo > /started; exec sleep 1000")
    await world.exec("cat /started")
    assert (await world.exec("kill -0 $(cat /pid)")).code == 0
    await process.kill()
    assert (await world.exec("kill -0 $(cat /pid)")).code != 0


async def test_one_that_puts_itself_into_the_background_is_waited_for(world):
    await world.start(f"({PORT}) > /dev/null 2>&1 &", ready=8080)
    await (await world.connect(8080)).aclose()


async def test_one_that_ends_is_the_authors_error_with_what_it_said(world):
    with pytest.raises(AuthorError, match=r"ended with exit code 3; it wrote: no such port"):
        await world.start("echo no such port >&2; exit 3", ready=8080)


async def test_one_that_does_not_come_up_in_time_is_killed_and_named(world):
    with pytest.raises(AuthorError, match=r"`echo hm; sleep 1000` accepted no connections at 8080 within 0.1 s; it wrote: hm"):
        await world.start("echo hm; sleep 1000", ready=8080, timeout_s=0.1)
    assert (await world.exec("pgrep sleep")).stdout == ""


async def test_one_that_talks_without_end_goes_on(world):
    await world.start(f"(yes noise) & {PORT}", ready=8080)
    await (await world.connect(8080)).aclose()


async def test_a_place_that_is_neither_port_nor_path_is_refused(world):
    with pytest.raises(AuthorError, match="a port as a number"):
        await world.start("sleep 1", ready="port:8080")
