"""An MCP server over HTTP without any SDK, as it is written into a sandbox."""

HTTP = """
import json, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        results = {
            "initialize": lambda: {"protocolVersion": request["params"]["protocolVersion"], "capabilities": {"tools": {}},
                                   "serverInfo": {"name": "web", "version": "1"}},
            "tools/list": lambda: {"tools": [{"name": "work", "inputSchema": {"type": "object"}}]},
            "tools/call": lambda: {"content": [{"type": "text", "text": "x" * request["params"]["arguments"]["n"]}]},
        }
        known = results.get(request.get("method"))
        body = json.dumps({"jsonrpc": "2.0", "id": request.get("id"), "result": known()}).encode() if known else b""
        self.send_response(200 if known else 202 if "id" not in request else 404)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send_response(405)
        self.send_header("content-length", "0")
        self.end_headers()

ThreadingHTTPServer(("127.0.0.1", 8080), Handler).serve_forever()
"""
