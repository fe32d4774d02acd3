"""Record the tool lists of public MCP servers, as data for `sandlot.apps`.

    python3 tests/foreign/record_schemas.py [NAME ...]

Each server is installed from npm or PyPI into a folder of its own under /tmp, started over stdio with credentials that belong
to no account, and asked for `tools/list`. The answer goes to `src/sandlot/apps/schemas/NAME.json`, together with the package,
its version, its licence and the date. Only the standard library is used here: the servers bring their own dependencies.
"""

import datetime as dt
import json
import os
import subprocess
import sys
import venv
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOME = Path("/tmp/sandlot-recorded-servers")
SCHEMAS = Path(__file__).parents[2] / "src" / "sandlot" / "apps" / "schemas"
PROTOCOL = "2025-06-18"
ATLASSIAN = {
    "JIRA_URL": "https://example.atlassian.net",
    "JIRA_USERNAME": "agent@example.com",
    "JIRA_API_TOKEN": "none",
    "CONFLUENCE_URL": "https://example.atlassian.net/wiki",
    "CONFLUENCE_USERNAME": "agent@example.com",
    "CONFLUENCE_API_TOKEN": "none",
}


@dataclass(frozen=True)
class Server:
    package: str
    program: str
    index: str = "npm"  # or pypi
    beside: tuple[str, ...] = ()  # requirements installed with it
    arguments: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    prefix: str = ""  # keep only the tools whose name starts so: one server may stand for two products


SERVERS = {
    "jira": Server("mcp-atlassian", "mcp-atlassian", "pypi", ("mcp<2",), environment=ATLASSIAN, prefix="jira_"),
    "confluence": Server("mcp-atlassian", "mcp-atlassian", "pypi", ("mcp<2",), environment=ATLASSIAN, prefix="confluence_"),
    "hubspot": Server("@hubspot/mcp-server", "mcp-hubspot", environment={"PRIVATE_APP_ACCESS_TOKEN": "none"}),
    "xero": Server(
        "@xeroapi/xero-mcp-server", "xero-mcp-server", environment={"XERO_CLIENT_ID": "none", "XERO_CLIENT_SECRET": "none"}
    ),
    "filesystem": Server("@modelcontextprotocol/server-filesystem", "mcp-server-filesystem", arguments=("/tmp",)),
    "github": Server(
        "@modelcontextprotocol/server-github", "mcp-server-github", environment={"GITHUB_PERSONAL_ACCESS_TOKEN": "none"}
    ),
    "git": Server("mcp-server-git", "mcp-server-git", "pypi", ("mcp<2",)),
    "playwright": Server("@playwright/mcp", "playwright-mcp", arguments=("--headless", "--isolated")),
}


def install(server: Server) -> tuple[Path, str, str]:
    """The program of a server, with the version and the licence that its package names."""
    home = HOME / server.package.strip("@").replace("/", "-")
    if server.index == "npm":
        home.mkdir(parents=True, exist_ok=True)
        command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(home), server.package]
        subprocess.run(command, check=True, timeout=600, stdout=subprocess.DEVNULL)
        package = json.loads((home / "node_modules" / server.package / "package.json").read_text())
        return home / "node_modules" / ".bin" / server.program, package["version"], package.get("license", "not stated")
    if not (home / "bin" / server.program).exists():
        venv.create(home, clear=True, with_pip=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "-qq", *server.beside, server.package]
        subprocess.run(pip, check=True, timeout=600)
    ask = (
        "import importlib.metadata as m, json, sys; p = m.metadata(sys.argv[1]);"
        "print(json.dumps([p['Version'], p['License-Expression'] or p['License'] or"
        " [c for c in p.get_all('Classifier', []) if c.startswith('License')]]))"
    )
    told = subprocess.run(
        [str(home / "bin" / "python"), "-c", ask, server.package], check=True, timeout=60, capture_output=True, text=True
    )
    version, licence = json.loads(told.stdout)
    texts = sorted(home.glob(f"lib/*/site-packages/{server.package.replace('-', '_')}-*.dist-info/licenses/LICENSE*"))
    return home / "bin" / server.program, version, _short_licence(licence or [each.read_text() for each in texts])


def _short_licence(licence: str | list[str]) -> str:
    text = licence if isinstance(licence, str) else ", ".join(each.rsplit(" :: ", 1)[-1] for each in licence)
    return text.splitlines()[0].strip() if text else "not stated"


def list_tools(program: Path, server: Server) -> list[dict[str, Any]]:
    """Start the server, shake hands, and read all pages of `tools/list`."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(HOME), **server.environment}
    with subprocess.Popen(
        [str(program), *server.arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
        text=True,
        cwd=HOME,
    ) as process:
        try:
            client = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "record_schemas", "version": "1"}}
            _ask(process, 1, "initialize", client)
            _send(process, {"jsonrpc": "2.0", "method": "notifications/initialized"})
            tools: list[dict[str, Any]] = []
            cursor: str | None = None
            for number in range(2, 100):
                page = _ask(process, number, "tools/list", {"cursor": cursor} if cursor else {})
                tools += page["tools"]
                cursor = page.get("nextCursor")
                if not cursor:
                    break
        finally:
            process.kill()
    return tools


def _send(process: subprocess.Popen[str], message: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()


def _ask(process: subprocess.Popen[str], number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    _send(process, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    assert process.stdout is not None
    for line in process.stdout:
        if not line.startswith("{"):
            continue
        said = json.loads(line)
        if said.get("id") == number and "result" in said:
            return said["result"]
        if said.get("id") == number and "error" in said:
            raise SystemExit(f"`{method}` was refused: {said['error']}")
    raise SystemExit(f"the server ended before it answered `{method}`")


def record(name: str) -> None:
    server = SERVERS[name]
    program, version, licence = install(server)
    tools = [tool for tool in list_tools(program, server) if tool["name"].startswith(server.prefix)]
    recorded = {
        "server": server.package,
        "version": version,
        "license": licence,
        "registry": server.index,
        "recorded": dt.datetime.now(tz=dt.UTC).date().isoformat(),
        "tools": [
            {"name": tool["name"], "description": tool.get("description", ""), "inputSchema": tool["inputSchema"]}
            for tool in tools
        ],
    }
    SCHEMAS.mkdir(parents=True, exist_ok=True)
    (SCHEMAS / f"{name}.json").write_text(json.dumps(recorded, indent=1, ensure_ascii=False, sort_keys=False) + "\n")
    sys.stdout.write(f"{name}: {len(tools)} tools of {server.package} {version} ({licence})\n")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or SERVERS:
        record(chosen)
