"""What a build may reach: packages of this machine's mirrors, and nothing else."""

import pytest

from sandlot.sandbox.containerfile.packages import PackageServer


@pytest.fixture
def server(tmp_path):
    made = PackageServer()
    index = tmp_path / "index"
    (index / "six").mkdir(parents=True)
    (index / "six" / "six-1.0-py3-none-any.whl").write_bytes(b"wheel")
    link = '<a href="six-1.0-py3-none-any.whl#sha256=abc" data-requires-python="&gt;=3.9" onclick="x">six</a>'
    (index / "six" / "index.html").write_text(link)
    made._indexes = [index.as_uri()]
    made._mirror = "http://127.0.0.1:9/debian/"
    return made


async def test_a_package_is_found_by_its_page_and_its_link(server):
    status, page = await server._reply("GET", "/simple/Six/")
    assert status == 200
    text = page.decode()
    assert 'data-requires-python="&gt;=3.9"' in text
    assert "onclick" not in text
    address = text.split('href="')[1].split("#")[0]
    status, file = await server._reply("GET", address)
    assert (status, file.read_bytes()) == (200, b"wheel")


@pytest.mark.parametrize(
    "target",
    [
        "/simple/none/",
        "/simple/..%2f..%2fetc/",
        "/file/abc/passwd",
        "/debian/../../etc/passwd",
        "/debian/etc/passwd",
        "/etc/passwd",
    ],
)
async def test_other_paths_are_not_found(server, target):
    status, _ = await server._reply("GET", target)
    assert status == 404


@pytest.mark.parametrize(
    ("method", "target", "host"),
    [
        ("CONNECT", "example.org:443", "example.org"),
        ("GET", "http://169.254.169.254/latest/meta-data", "169.254.169.254"),
        ("POST", "http://example.org/upload", "example.org"),
    ],
)
async def test_every_other_host_is_refused_and_named(server, method, target, host):
    status, body = await server._reply(method, target)
    assert status == 403
    assert host in server.refused
    assert host.encode() in body
