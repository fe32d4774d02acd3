#!/usr/bin/env python3
"""Call a tool of this task's environment from a shell."""

from __future__ import annotations

import json
import os
import sys
import urllib.error
import urllib.request
from typing import Any, NoReturn

MAX_BYTES = 2**20
USAGE = """usage: tool --list                   every tool, with the first line of its description
       tool NAME --help              the whole description and the JSON schema of the arguments
       tool NAME '{"argument": 1}'   call a tool; `-` instead of the JSON reads it from standard input
The result is printed. The exit code is 0, or 1 if the tool answered with an error, or 2 if the call was not made."""


def ask(path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the host answers; ends the program if it refuses."""
    data = None if body is None else json.dumps(body).encode()
    if data is not None and len(data) > MAX_BYTES:
        stop(f"the arguments are larger than {MAX_BYTES} bytes; send less at once")
    request = urllib.request.Request(os.environ["SANDLOT_TOOLS_URL"] + path, data, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request) as reply:
            return json.load(reply)
    except urllib.error.HTTPError as error:
        stop(json.load(error)["error"]["message"])
    except OSError as error:
        stop(f"the tools cannot be reached: {error}")


def stop(message: str) -> NoReturn:
    """End the program: no call was made."""
    print(f"tool: {message}", file=sys.stderr)
    sys.exit(2)


def signature(tool: dict[str, Any]) -> str:
    """Name and arguments; those in brackets may be left out."""
    required = tool["parameters"].get("required", [])
    names = [name if name in required else f"[{name}]" for name in tool["parameters"].get("properties", {})]
    return f"{tool['name']}({', '.join(names)})"


def show(name: str | None) -> None:
    """Print one tool in full, or the list of all."""
    tools = ask("")["tools"]
    if name is None:
        for tool in tools:
            print(f"{signature(tool)}  {tool['description'].strip().partition(chr(10))[0]}")
        return
    found = [tool for tool in tools if tool["name"] == name]
    if not found:
        stop(f"there is no tool `{name}`; `tool --list` names them")
    print(f"{signature(found[0])}\n\n{found[0]['description']}\n\n{json.dumps(found[0]['parameters'], indent=2)}")


def call(name: str, text: str) -> NoReturn:
    """Call a tool and print its result."""
    try:
        arguments = json.loads(text)
    except ValueError as error:
        stop(f"the arguments are not JSON ({error}); give an object in single quotes, such as '{{\"id\": 1}}'")
    if not isinstance(arguments, dict):
        stop("the arguments are not a JSON object; give one such as '{\"id\": 1}'")
    result = ask("/call", {"name": name, "arguments": arguments})
    print(result["text"])
    sys.exit(1 if result["error"] else 0)


def main(words: list[str]) -> None:
    """Do what the words of the command line ask for."""
    if words in (["--list"], ["-l"]):
        show(None)
    elif len(words) == 2 and words[1] in {"--help", "-h"}:
        show(words[0])
    elif len(words) in {1, 2} and not words[0].startswith("-"):
        text = words[1] if len(words) == 2 else "{}"
        call(words[0], sys.stdin.read() if text == "-" else text)
    else:
        print(USAGE, file=sys.stdout if words in (["--help"], ["-h"]) else sys.stderr)
        sys.exit(0 if words in (["--help"], ["-h"]) else 2)


if __name__ == "__main__":
    sys.stdout = open(sys.stdout.fileno(), "w", encoding="utf-8", errors="replace", closefd=False)  # noqa: SIM115 - open to the end
    main(sys.argv[1:])
