"""An MCP server over streamable HTTP, in plain Python, that behaves as badly as it is told to.

Listens on a free loopback port, or on the one it is given, and prints it. Ends when its standard input does. Options:
  --port PORT         listen there
  --status CODE       answer every request with this status
  --redirect URL      send every request elsewhere, with status 307
  --moved             the server is at /moved/mcp, and /mcp leads there
  --page              answer with a web page
  --no-stream         refuse to open a stream by GET
"""

import argparse
import json
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

options = argparse.ArgumentParser()
options.add_argument("--port", type=int, default=0)
options.add_argument("--status", type=int)
options.add_argument("--redirect")
options.add_argument("--moved", action="store_true")
options.add_argument("--page", action="store_true")
options.add_argument("--no-stream", action="store_true")
options = options.parse_args()

sessions = set()
waiting = {}
seen = []
NAMES = ["echo", "headers", "json_big", "events_big", "steps", "ask", "hang", "forget", "cut", "seen", "bad_json"]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body=b"", kind="application/json", **headers):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def reply_json(self, message, **headers):
        self.reply(200, json.dumps({"jsonrpc": "2.0", **message}).encode(), **headers)

    def begin_events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()

    def event(self, message):
        self.wfile.write(b"data: " + json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n\n")
        self.wfile.flush()

    def turned_away(self):
        if options.redirect:
            self.reply(307, Location=options.redirect)
        elif options.status:
            self.reply(options.status, b'{"error":"you sent ' + self.headers.get("Authorization", "").encode() + b'"}')
        elif options.page:
            self.reply(200, b"<!doctype html>", "text/html")
        elif options.moved and self.path != "/moved/mcp":
            self.reply(307, Location="/moved/mcp")
        elif "Mcp-Session-Id" in self.headers and self.headers["Mcp-Session-Id"] not in sessions:
            self.reply(404)
        else:
            return False
        return True

    def do_GET(self):
        if self.turned_away():
            return
        if options.no_stream:
            self.reply(405)
            return
        self.begin_events()
        session = self.headers["Mcp-Session-Id"]
        try:
            while session in sessions:
                self.wfile.write(b": still here\n\n")
                self.wfile.flush()
                time.sleep(0.05)
        except OSError:
            pass
        self.close_connection = True

    def do_DELETE(self):
        sessions.discard(self.headers["Mcp-Session-Id"])
        self.reply(200)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.turned_away():
            return
        message = json.loads(body)
        seen.append(message.get("method"))
        if "method" not in message:
            waiting[message["id"]][1] = message.get("result", message.get("error"))
            waiting[message["id"]][0].set()
            self.reply(202)
        elif "id" not in message:
            self.reply(202)
        elif message["method"] == "initialize":
            session = str(uuid.uuid4())
            sessions.add(session)
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                      "serverInfo": {"name": "bad-http", "version": "1"}}
            self.reply_json({"id": message["id"], "result": result}, Mcp_Session_Id=session)
        elif message["method"] == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in NAMES]
            self.reply_json({"id": message["id"], "result": {"tools": tools}})
        elif message["method"] == "tools/call":
            self.call(message["id"], message["params"])
        else:
            self.reply_json({"id": message["id"], "result": {}})

    def call(self, number, params):
        name, given = params["name"], params.get("arguments", {})
        text = lambda value: {"id": number, "result": {"content": [{"type": "text", "text": value}]}}
        if name == "echo":
            self.reply_json(text(given["text"]))
        elif name == "headers":
            self.reply_json(text(json.dumps({key.lower(): value for key, value in self.headers.items()})))
        elif name == "seen":
            self.reply_json(text(json.dumps(seen)))
        elif name == "bad_json":
            self.reply(200, b"{")
        elif name in ("json_big", "events_big"):
            self.send_response(200)
            events = name == "events_big"
            self.send_header("Content-Type", "text/event-stream" if events else "application/json")
            self.send_header("Connection", "close")
            self.end_headers()
            try:
                self.wfile.write(b"data: " if events else b"")
                self.wfile.write(b'{"jsonrpc":"2.0","result":{"content":[{"type":"text","text":"')
                for _ in range(given["megabytes"]):
                    self.wfile.write(b"x" * 1024 * 1024)
                self.wfile.write(b'"}]},"id":%d}\n\n' % number)
            except OSError:
                pass
            self.close_connection = True
        elif name == "steps":
            self.begin_events()
            for step in range(given["count"]):
                params = {"progressToken": params["_meta"]["progressToken"], "progress": step} if step == 0 else {**params, "progress": step}
                self.event({"method": "notifications/progress", "params": params})
            self.event(text("done"))
            self.close_connection = True
        elif name == "ask":
            self.begin_events()
            answered = threading.Event()
            asking = number + 100000
            waiting[asking] = [answered, None]
            self.event({"id": asking, "method": "elicitation/create", "params": given})
            answered.wait(30)
            self.event(text(json.dumps(waiting.pop(asking)[1])))
            self.close_connection = True
        elif name == "hang":
            self.begin_events()
            self.event({"method": "notifications/progress", "params": {"progressToken": params["_meta"]["progressToken"], "progress": 0}})
            time.sleep(1000)
        elif name == "forget":
            sessions.clear()
            self.reply_json(text("forgotten"))
        elif name == "cut":
            self.begin_events()
            self.close_connection = True


server = ThreadingHTTPServer(("127.0.0.1", options.port), Handler)
server.daemon_threads = True
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_address[1], flush=True)
sys.stdin.read()
