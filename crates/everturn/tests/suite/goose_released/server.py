"""An MCP server in plain Python whose calls leave traces: lines in effects.txt, in the folder that it runs in."""

import json
import os
import sys
import threading
import time

lock = threading.Lock()
waiting = {}
last_id = 0


def send(message):
    with lock:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def request(method, params):
    """Asks the client something and waits for the answer."""
    global last_id
    with lock:
        last_id += 1
        number = f"ask-{last_id}"
    answered = threading.Event()
    waiting[number] = [answered, None]
    send({"id": number, "method": method, "params": params})
    answered.wait()
    return waiting.pop(number)[1]


def leave(line):
    with lock, open("effects.txt", "a") as file:
        file.write(line + "\n")


def text(value, **more):
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}], **more}


def call(params):
    name, given = params["name"], params.get("arguments", {})
    token = params.get("_meta", {}).get("progressToken")
    line = given.get("line", "")
    if name in ("append", "write"):
        leave(f"{name} {line}")
        return text(f"wrote {line}")
    if name == "hold":
        leave(f"begin {line}")
        while not os.path.exists(f"{line}.go"):
            time.sleep(0.005)
        leave(f"end {line}")
        return text(f"held {line}")
    if name == "look":
        return text("nothing to see")
    if name == "ask":
        answer = request("elicitation/create", {"message": given["message"], "requestedSchema": given["schema"]})
        leave(f"told {json.dumps(answer, sort_keys=True)}")
        return text(answer)
    if name == "news":
        send({"method": "notifications/progress",
              "params": {"progressToken": token, "progress": 1, "total": 2, "message": "half"}})
        send({"method": "notifications/message", "params": {"level": "info", "data": "so far so good"}})
        return text("no news")
    if name == "picture":
        return {"content": [{"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}]}
    return text("that went wrong", isError=True)


def tool(name, **hints):
    return {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}, "annotations": hints}


TOOLS = [*map(tool, ["append", "write", "hold", "ask", "news", "picture", "fail"]), tool("look", readOnlyHint=True)]


def answer(message):
    method, params = message["method"], message.get("params") or {}
    if method == "initialize":
        result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}, "logging": {}, "resources": {}},
                  "serverInfo": {"name": "box", "version": "1.0.0"}}
    elif method == "tools/list":
        result = {"tools": TOOLS}
    elif method == "resources/list":
        result = {"resources": [
            {"uri": "ui://box/page", "name": "page", "mimeType": "text/html", "description": "A page"},
            {"uri": "file:///notes.txt", "name": "notes"},
        ]}
    elif method == "resources/read" and params["uri"] == "ui://box/page":
        result = {"contents": [{"uri": "ui://box/page", "mimeType": "text/html", "text": "<p>Box</p>"}]}
    elif method == "resources/read":
        send({"id": message["id"], "error": {"code": -32002, "message": "there is no such resource"}})
        return
    elif method == "tools/call":
        result = call(params)
    else:
        result = {}
    send({"id": message["id"], "result": result})


for line in sys.stdin:
    message = json.loads(line)
    if "method" not in message:
        waiting[message["id"]][1] = message.get("result", message.get("error"))
        waiting[message["id"]][0].set()
    elif "id" in message:
        threading.Thread(target=answer, args=(message,), daemon=True).start()
os._exit(0)
