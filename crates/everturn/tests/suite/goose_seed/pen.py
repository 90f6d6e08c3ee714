"""An MCP server whose tool leaves a mark: it appends a line to a file, and can be held up before its answer."""

import json
import os
import sys
import threading
import time

lock = threading.Lock()
SCHEMA = {"type": "object", "properties": {"file": {"type": "string"}, "line": {"type": "string"},
                                           "until": {"type": "string"}}, "required": ["file", "line"]}
TOOLS = [{"name": name, "description": "Appends a line to a file.", "inputSchema": SCHEMA} for name in ("append", "asked")]


def send(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def append(given):
    with open(given["file"], "a") as file:
        file.write(given["line"] + "\n")
    while "until" in given and not os.path.exists(given["until"]):
        time.sleep(0.005)
    return {"content": [{"type": "text", "text": "written"}]}


def answer(message):
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "pen", "version": "1.0.0"}}
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "tools/call":
        result = append(params["arguments"])
    else:
        result = {}
    send({"id": message["id"], "result": result})


for line in sys.stdin:
    message = json.loads(line)
    if "id" in message and "method" in message:
        threading.Thread(target=answer, args=(message,), daemon=True).start()
os._exit(0)
