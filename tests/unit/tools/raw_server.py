"""A small MCP server without any SDK, so that it can misbehave in every way: `raw_server.py MODE`."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

MODE = sys.argv[1]
OUT = sys.stdout.buffer
TOOL = {"name": "work", "description": "Do it.", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}

DOUBLE = {
    "name": "work",
    "description": "Double it.",
    "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
}


def send(message):
    OUT.write(json.dumps({"jsonrpc": "2.0"} | message).encode() + b"\n")
    OUT.flush()


def say(words):
    sys.stderr.write(words + "\n")
    sys.stderr.flush()


def answer(request, result):
    send({"id": request["id"], "result": result})


def text(said, **more):
    return {"content": [{"type": "text", "text": said}]} | more


def tools():
    recursive = {"type": "object", "properties": {"node": {"$ref": "#/$defs/N"}}, "$defs": {"N": {"$ref": "#/$defs/N"}}}
    deep = {"type": "object", "properties": {}}
    for _ in range(50):
        deep = {"type": "object", "properties": {"x": deep}}
    return {
        "duplicate": [TOOL, TOOL],
        "many": [TOOL | {"name": f"tool{n}"} for n in range(1100)],
        "recursive": [TOOL | {"inputSchema": recursive}],
        "deep_schema": [TOOL | {"inputSchema": deep}],
        "huge_schema": [TOOL | {"inputSchema": {"type": "object", "description": "x" * 2**17}}],
        "array_schema": [TOOL | {"inputSchema": {"type": "array"}}],
        "no_schema": [{"name": "work"}],
        "long_description": [TOOL | {"description": "x" * 10**6}],
        "empty": [],
        "double": [DOUBLE],
        "lying_output": [TOOL | {"outputSchema": {"type": "object", "required": ["total"]}}],
    }.get(MODE, [TOOL])


def call(request):  # noqa: C901, PLR0912, PLR0915 - one branch for each way to misbehave
    match MODE:
        case "double":
            n = request["params"]["arguments"].get("n")
            if not isinstance(n, int):
                send({"id": request["id"], "error": {"code": -32602, "message": "n must be a whole number"}})
            else:
                answer(request, text("n is negative", isError=True) if n < 0 else text(str(2 * n)))
        case "hang_in_call":
            time.sleep(3600)
        case "exit_in_call":
            say("about to fall over")
            os._exit(3)
        case "killed_in_call":
            os.kill(os.getpid(), signal.SIGKILL)
        case "close_output_in_call":
            os.close(1)
            time.sleep(3600)
        case "huge":
            answer(request, text("x" * 12_000_000))
        case "huge_id_last":
            OUT.write(
                b'{"result":' + json.dumps(text("x" * 12_000_000)).encode() + b',"jsonrpc":"2.0","id":%d}\n' % request["id"]
            )
            OUT.flush()
        case "endless_line":
            while True:
                OUT.write(b"x" * 2**20)
        case "wrong_shape":
            answer(request, {"content": "not a list"})
        case "null_result":
            answer(request, None)
        case "deep_answer":
            OUT.write(b'{"jsonrpc":"2.0","id":%d,"result":' % request["id"] + b"[" * 10_000 + b"]" * 10_000 + b"}\n")
            OUT.flush()
        case "bad_utf8":
            OUT.write(b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"\xff\xfe"}]}}\n' % request["id"])
            OUT.flush()
        case "half_character":
            answer(request, text("lone \ud800 half"))
        case "tool_error":
            answer(request, text("no such row", isError=True))
        case "protocol_error":
            send({"id": request["id"], "error": {"code": -32602, "message": "n must be positive"}})
        case "wrong_id":
            send({"id": 987654, "result": text("not yours")})
            send({"id": "text", "error": {"code": 1, "message": "not yours either"}})
            answer(request, text("yours"))
        case "asks_back":
            send({"id": 1, "method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}})
            send({"id": 2, "method": "no/such", "params": {}})
            answer(request, text("done"))
        case "picture":
            shown = {"type": "image", "data": sys.argv[2], "mimeType": "text/html"}  # its label is wrong; the bytes decide
            answer(request, {"content": [{"type": "text", "text": "The page:"}, shown]})
        case "image":
            answer(request, {"content": [{"type": "image", "data": "AAAA", "mimeType": "image/png"}]})
        case "structured":
            answer(request, {"content": [], "structuredContent": {"total": 5}})
        case "lying_output":
            answer(request, text("not what was promised", structuredContent={"other": 1}))
        case "folder":
            answer(request, text(str(Path.cwd())))
        case "environment":
            answer(request, text(json.dumps(dict(os.environ))))
        case "says_secret":
            say(f"my key is {os.environ['THE_KEY']}")
            os._exit(1)
        case _:
            answer(request, text(f"worked {request['params'].get('arguments')}"))


def serve():
    for line in sys.stdin:
        if MODE == "garbage":
            OUT.write(b'Server starting...\n\xff\xfe\x00\n\n{}\n[1,2]\n{"jsonrpc": "2.0"\n')
        request = json.loads(line)
        match request.get("method"):
            case "initialize":
                version = request["params"]["protocolVersion"]
                info = {"name": "raw", "version": "1"}
                answer(request, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info})
            case "tools/list":
                answer(request, {"tools": tools()} | ({"nextCursor": "again"} if MODE == "endless_pages" else {}))
            case "tools/call":
                call(request)
            case "server/discover":
                send({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})


match MODE:
    case "hang_at_start":
        say("waiting for a licence")
        time.sleep(3600)
    case "only_garbage":
        OUT.write(b"Welcome to my server!\n")
        OUT.flush()
        time.sleep(3600)
    case "exit_at_start":
        sys.exit("no config file")
    case "noisy":
        sys.stderr.write("x" * 10_000_000)
        serve()
    case "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)", sys.argv[2]])
        serve()
        time.sleep(3600)
    case _:
        serve()
