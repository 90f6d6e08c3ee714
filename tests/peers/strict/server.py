"""The HTTP server in front of all fakes.

Paths: `/s/SCOPE` first selects the world of one test (its script, journal and caches); then come the vendors' own paths,
those of chat completions with a personality before them, such as `/deepseek/v1/chat/completions`.

POST /__script {"vendor", "model" ("*" for all), "steps": [[piece, …], …]}
POST /__settings {"steps": n, "windows": {model: tokens}, "max_output": {model: tokens}}
GET  /__journal?vendor=    POST /__reset
"""

import http.server
import json
import os
import re
import sys
import threading
import time
import traceback
import urllib.parse

from . import anthropic, gemini, ollama, openai_chat, openai_responses
from .core import Refused, Request, Scope

MAX_BODY = 128 << 20
SCOPES, SCOPES_LOCK = {}, threading.Lock()


def scope_named(name):
    with SCOPES_LOCK:
        return SCOPES.setdefault(name, Scope())


# Endpoint pattern -> vendor and function. The functions take (scope, request) and return (content type, chunks), or
# raise `Refused`.
POSTS = [
    (re.compile(r"/v1/responses"), "openai_responses", openai_responses.call),
    (re.compile(r"/v1/chat/completions"), "openai_chat", openai_chat.call),
    (re.compile(r"/v1/messages"), "anthropic", anthropic.call),
    (re.compile(r"/v1(?:beta)?/models/(?P<model>[^/]+):(?:streamGenerateContent|generateContent)"), "gemini", gemini.call),
    (re.compile(r"/api/chat"), "ollama", ollama.call),
    (re.compile(r"/api/show"), "ollama", ollama.show),
]
GETS = [
    (re.compile(r"/v1beta/models"), "gemini", gemini.models),
    (re.compile(r"/v1beta/models/(?P<model>[^/]+)"), "gemini", gemini.models),
    (re.compile(r"/api/tags"), "ollama", ollama.tags),
    (re.compile(r"/v1/models(?:/(?P<model>[^/]+))?"), "models", None),
]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.serve("GET")

    def do_POST(self):
        self.serve("POST")

    def serve(self, method):
        url = urllib.parse.urlsplit(self.path)
        query = dict(urllib.parse.parse_qsl(url.query))
        name, path = "", url.path
        if match := re.fullmatch(r"/s/([^/]+)(/.*)", path):
            name, path = match.groups()
        scope = scope_named(name)
        length = int(self.headers.get("content-length") or 0)
        if length > MAX_BODY:
            return self.reply(413, {"error": "too large"})
        raw = self.rfile.read(length)
        try:
            if path.startswith("/__"):
                return self.control(scope, method, path, query, raw)
            self.route(scope, method, path, query, raw)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        except Exception:
            # A fault of the fake, which must not pass for an answer of the vendor.
            traceback.print_exc()
            self.close_connection = True
            self.reply(599, {"fault of the fake": traceback.format_exc()})

    def control(self, scope, method, path, query, raw):
        given = json.loads(raw) if raw else {}
        if method == "POST" and path == "/__script":
            scope.script(given["vendor"], given.get("model", "*"), given["steps"])
        elif method == "POST" and path == "/__settings":
            scope.set(given)
        elif method == "POST" and path == "/__reset":
            scope.reset()
        elif method == "GET" and path == "/__journal":
            vendor = query.get("vendor")
            return self.reply(200, [entry for entry in scope.journal if vendor in (None, "", entry["vendor"])])
        else:
            return self.reply(404, {"error": f"no {method} {path}"})
        self.reply(200, {})

    def route(self, scope, method, path, query, raw):
        headers = {name.lower(): value for name, value in self.headers.items()}
        for pattern, vendor, call in POSTS if method == "POST" else GETS:
            match = re.fullmatch(r"(?:/(?P<personality>[a-z0-9_-]+))?(?P<endpoint>" + pattern.pattern + ")", path)
            if not match:
                continue
            found = match.groupdict()
            request = Request(path, found["endpoint"], found.get("personality") or "", query, headers, None)
            request.model = urllib.parse.unquote(found.get("model") or "")
            if vendor == "models":
                # Three vendors have a list here; their headers tell which one is meant.
                call = anthropic.models if "anthropic-version" in headers else gemini.models if "x-goog-api-key" in headers else openai_chat.models
            return self.run(scope, vendor, call, request, raw)
        self.reply(404, {"error": {"message": f"Invalid URL ({method} {path})", "type": "invalid_request_error", "param": None, "code": None}})

    def run(self, scope, vendor, call, request, raw):
        try:
            try:
                request.body = json.loads(raw) if raw else None
            except ValueError:
                request.body = raw.decode(errors="replace")
            kind, chunks = call(scope, request)
        except Refused as refused:
            scope.note(vendor, request, raw, refused.body, refused.status)
            if refused.stream:
                return self.stream(refused.stream[0], refused.stream[1])
            return self.reply(refused.status, refused.body, refused.headers)
        if raw:
            scope.note(vendor, request, raw)
        if isinstance(chunks, (dict, list)):
            return self.reply(200, chunks)
        self.stream(kind, chunks)

    def reply(self, status, body, headers=None):
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def stream(self, kind, chunks):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("cache-control", "no-cache")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for chunk in chunks:
            if chunk is None:
                # The stream is cut: no last chunk, no end.
                self.close_connection = True
                self.wfile.flush()
                return
            if isinstance(chunk, (int, float)):
                time.sleep(chunk / 1000)
                continue
            self.wfile.write(b"%x\r\n%s\r\n" % (len(chunk), chunk))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request, client_address):
        # Clients that go away in the middle are part of the tests.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def start():
    """Starts the server on a free loopback port, in a thread; returns its address."""
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


def main():
    print(start(), flush=True)
    sys.stdin.read()
    os._exit(0)
