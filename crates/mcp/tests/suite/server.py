"""An MCP server in plain Python that behaves as badly as it is told to.

Speaks lines of JSON on standard input and output. Options:
  --list FILE        list these tools (a JSON array of pages) instead of its own
  --silent           never answer
  --die TEXT         write a text to standard error and end with code 3 before answering
  --once FILE        as --die, but only if the file is not there yet; make it
  --stubborn         ignore the end of the input and the request to terminate
  --children FILE    start a child, a grandchild and one that has left the family; write all process ids to the file
  --note FILE        append a line to the file for every notification that arrives
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time

options = argparse.ArgumentParser()
options.add_argument("--list")
options.add_argument("--silent", action="store_true")
options.add_argument("--die")
options.add_argument("--once")
options.add_argument("--stubborn", action="store_true")
options.add_argument("--children")
options.add_argument("--note")
options = options.parse_args()

lock = threading.Lock()
waiting = {}
last_id = 1000
extra_tools = []


def write(line):
    with lock:
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


def send(message):
    write(json.dumps({"jsonrpc": "2.0", **message}))


def request(method, params):
    """Asks the client something and waits for the answer."""
    global last_id
    with lock:
        last_id += 1
        number = last_id
    answered = threading.Event()
    waiting[number] = [answered, None]
    send({"id": number, "method": method, "params": params})
    answered.wait()
    return waiting.pop(number)[1]


def text(value):
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}]}


def call(number, params):
    name, given, meta = params["name"], params.get("arguments", {}), params.get("_meta", {})
    token = meta.get("progressToken")
    if name == "echo":
        return text(given.get("text", ""))
    if name == "environment":
        return text(dict(os.environ))
    if name == "meta":
        return text(meta)
    if name == "where":
        return text(os.getcwd())
    if name == "fail":
        return {"content": [{"type": "text", "text": "that went wrong"}], "isError": True}
    if name == "refuse":
        raise ValueError("it is Sunday")
    if name == "hang":
        send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 0}})
        time.sleep(1000)
    if name == "die":
        sys.stderr.write("it hurts\n")
        sys.stderr.flush()
        os._exit(given.get("code", 1))
    if name == "steps":
        for step in range(given["count"]):
            params = {"progressToken": token, "progress": step + 1, "total": given["count"], "message": f"step {step + 1}"}
            send({"method": "notifications/progress", "params": params})
        return text("done")
    if name == "chatter":
        send({"method": "notifications/message", "params": {"level": "warning", "logger": "it", "data": {"a": 1}}})
        send({"method": "notifications/resources/updated", "params": {"uri": "file:///a"}})
        send({"method": "notifications/resources/list_changed"})
        send({"method": "notifications/somebody/elses", "params": {"a": 1}})
        return text("done")
    if name == "flood":
        line = json.dumps({"jsonrpc": "2.0", "method": "notifications/message",
                           "params": {"level": "info", "data": "x" * given.get("size", 100)}})
        block = (line + "\n") * 100
        for _ in range(given["count"] // 100):
            with lock:
                sys.stdout.write(block)
        return text("done")
    if name == "complain":
        for n in range(given["lines"]):
            sys.stderr.write(f"line {n} with {os.environ.get('SECRET', 'no secret')}\n")
        sys.stderr.flush()
        return text("done")
    if name == "big":
        with lock:
            result = '"result":{"content":[{"type":"text","text":"'
            head = f'{{"jsonrpc":"2.0","id":{number},{result}' if given.get("id_first") else "{" + result
            sys.stdout.write(head)
            for _ in range(given["megabytes"]):
                sys.stdout.write("x" * 1024 * 1024)
            tail = '"}]}' + ("}" if given.get("id_first") else f',"jsonrpc":"2.0","id":{number}}}')
            sys.stdout.write(tail + "\n")
            sys.stdout.flush()
        return None
    if name == "many":
        return {"content": [], "structuredContent": {"values": [0] * given["values"]}}
    if name == "raw":
        write(given["line"].replace("ID", str(number)))
        return text("done") if given.get("answer") else None
    if name == "ask":
        return text(request("elicitation/create", given))
    if name == "register":
        fields = {field: {"type": "string"} for field in ("name", "email", "age")}
        return text(request("elicitation/create", {
            "message": "Who are you?", "requestedSchema": {"type": "object", "properties": fields}}))
    if name == "sample":
        message = {"role": "user", "content": {"type": "text", "text": "hi"}}
        return text(request("sampling/createMessage", {"messages": [message], "maxTokens": 5}))
    if name == "roots":
        return text(request("roots/list", {}))
    if name == "ping":
        return text(request("ping", {}))
    if name == "grow":
        extra_tools.append(tool(given["name"]))
        send({"method": "notifications/tools/list_changed"})
        return text("done")
    if name == "image":
        return {"content": [{"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"}]}
    raise ValueError(f"there is no tool {name}")


def tool(name, **more):
    return {"name": name, "description": f"Does {name}.", "inputSchema": {"type": "object"}, **more}


NAMES = ["environment", "meta", "where", "fail", "refuse", "hang", "die", "steps", "chatter", "flood", "complain", "big",
         "many", "raw", "ask", "register", "sample", "roots", "ping", "grow", "image"]
TOOLS = [
    tool("echo", title="Echo", annotations={"readOnlyHint": True}, inputSchema={
        "type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}),
    *map(tool, NAMES),
]


def pages():
    if options.list:
        with open(options.list) as file:
            return json.load(file)
    return [TOOLS + extra_tools]


def answer(message):
    method, number, params = message["method"], message["id"], message.get("params") or {}
    if method == "initialize":
        capabilities = {"tools": {"listChanged": True}, "logging": {}}
        result = {"protocolVersion": params["protocolVersion"], "capabilities": capabilities,
                  "serverInfo": {"name": "bad-server", "version": "1.2.3"}}
    elif method == "tools/list":
        page = int(params.get("cursor", 0))
        all_pages = pages()
        result = {"tools": all_pages[page]}
        if page + 1 < len(all_pages):
            result["nextCursor"] = str(page + 1)
    elif method == "tools/call":
        try:
            result = call(number, params)
        except ValueError as error:
            send({"id": number, "error": {"code": -32602, "message": str(error)}})
            return
        if result is None:
            return
    else:
        result = {}
    send({"id": number, "result": result})


def note(message):
    if options.note:
        with open(options.note, "a") as file:
            file.write(json.dumps(message) + "\n")


CHILD = "import signal, time\nfor s in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT): signal.signal(s, signal.SIG_IGN)\ntime.sleep(1000)"


def have_children(path):
    """A child that stays, one behind a shell, and one that leaves: a new session, and its parent ends at once."""
    run = [sys.executable, "-c", CHILD]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    child = subprocess.Popen(run, **quiet)
    shell = subprocess.Popen(["sh", "-c", '"$0" "$@" & echo $!; wait', *run], stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, text=True)
    grandchild = int(shell.stdout.readline())
    leave = ("import subprocess, sys\n"
             "child = subprocess.Popen(sys.argv[1:], start_new_session=True, stdin=subprocess.DEVNULL,"
             " stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
             "print(child.pid, flush=True)")
    left = subprocess.run([sys.executable, "-c", leave, *run], capture_output=True, text=True, check=True)
    ids = [os.getpid(), child.pid, shell.pid, grandchild, int(left.stdout)]
    with open(path + ".part", "w") as file:
        file.write(" ".join(map(str, ids)))
    os.rename(path + ".part", path)


def main():
    if options.stubborn:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
    if options.children:
        have_children(options.children)
    if options.once and not os.path.exists(options.once):
        open(options.once, "w").close()
        options.die = "not yet"
    if options.die:
        sys.stderr.write(options.die + "\n")
        sys.stderr.flush()
        sys.exit(3)
    for line in sys.stdin:
        message = json.loads(line)
        if options.silent:
            continue
        if "method" not in message:
            waiting[message["id"]][1] = message.get("result", message.get("error"))
            waiting[message["id"]][0].set()
        elif "id" in message:
            threading.Thread(target=answer, args=(message,), daemon=True).start()
        else:
            note(message)
    while options.stubborn:
        time.sleep(1000)
    os._exit(0)


main()
