"""An MCP server for tests, in plain Python: its tools leave traces that can be counted, and it misbehaves on demand.

Speaks lines of JSON on standard input and output. Options:
  --life FILE       append the process id to the file at the start
  --ledger FILE     where the tools that have effects append what they did
  --heard FILE      append every notification that arrives
  --list FILE       list the tools in this file, a JSON array, instead of its own; read anew every time
  --family FILE     have children, grandchildren and one that has left the family; write all process ids to the file
  --stubborn        ignore the end of the input and every signal that can be ignored
  --hold FILE       wait at the start for as long as the file is there
  --exit TEXT       write this to standard error and end with code 3
  --silent          never answer
  --nonsense        write things that are no messages, and answer nothing
  --complain        write to standard error for ever, and answer nothing
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time

parser = argparse.ArgumentParser()
for name in ("life", "ledger", "heard", "list", "family", "hold", "exit"):
    parser.add_argument("--" + name)
for name in ("stubborn", "silent", "nonsense", "complain"):
    parser.add_argument("--" + name, action="store_true")
options = parser.parse_args()

lock = threading.Lock()
asked = {}
more_tools = []


def append(path, line):
    # One write, so that lines of several processes do not mix.
    with open(path, "a") as file:
        file.write(line + "\n")


def send(message):
    line = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
    with lock:
        sys.stdout.write(line)
        sys.stdout.flush()


def ask(method, params):
    """Asks the client something and waits for the answer."""
    number = f"question-{len(asked)}"
    answered = threading.Event()
    asked[number] = [answered, None]
    send({"id": number, "method": method, "params": params})
    answered.wait()
    return asked[number][1]


def text(value):
    return {"content": [{"type": "text", "text": value if isinstance(value, str) else json.dumps(value)}]}


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.005)


def big(number, megabytes):
    with lock:
        sys.stdout.write(f'{{"jsonrpc":"2.0","id":{number},"result":{{"content":[{{"type":"text","text":"')
        for _ in range(megabytes):
            sys.stdout.write("x" * 1000 * 1000)
        sys.stdout.write('"}]}}\n')
        sys.stdout.flush()


def call(number, params):
    tool, given, meta = params["name"], params.get("arguments", {}), params.get("_meta", {})
    if tool == "echo":
        return text(given["text"])
    if tool == "pid":
        return text(str(os.getpid()))
    if tool == "environment":
        return text(dict(os.environ))
    if tool in ("spend", "put", "look"):
        entry = {"tool": tool, "text": given.get("text"), "effect": meta.get("everturn/effect_id")}
        append(options.ledger, json.dumps(entry))
        if "until" in given:
            wait_for(given["until"])
        return text(f"{tool} is done")
    if tool == "wait":
        wait_for(given["until"])
        return text("waited")
    if tool == "parts":
        return {"content": [{"type": "text", "text": part} for part in given["texts"]]}
    if tool == "steps" and "until" in given:
        step = 0
        while not os.path.exists(given["until"]):
            step += 1
            params = {"progressToken": meta["progressToken"], "progress": step}
            send({"method": "notifications/progress", "params": params})
            time.sleep(0.05)
        return text("enough steps")
    if tool == "steps":
        for step, words in enumerate(given["words"], 1):
            params = {"progressToken": meta["progressToken"], "progress": step, "total": len(given["words"]), "message": words}
            send({"method": "notifications/progress", "params": params})
        return text("all done")
    if tool == "big":
        return big(number, given["megabytes"])
    if tool == "ask":
        return text(ask("elicitation/create", given))
    if tool == "sample":
        message = {"role": "user", "content": {"type": "text", "text": "hi"}}
        answer = ask("sampling/createMessage", {"messages": [message], "maxTokens": 5})
        return text(f"my question to a model was answered: {answer['message']}")
    if tool == "grow":
        more_tools.append(describe(given["name"]))
        send({"method": "notifications/tools/list_changed"})
        return text("grown")
    if tool == "blab":
        secret = os.environ["SECRET"]
        sys.stderr.write(f"I was given {secret}, said standard error\n")
        sys.stderr.flush()
        send({"method": "notifications/message", "params": {"level": "error", "data": {"told": f"{secret}, as data"}}})
        return text("blabbed")
    return text(f"this is {tool}")


def describe(name, schema=None, **hints):
    schema = schema or {"type": "object"}
    return {"name": name, "description": f"Does {name}.", "inputSchema": schema, "annotations": hints}


ECHO = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"], "additionalProperties": False}
TOOLS = [
    describe("echo", ECHO, readOnlyHint=True),
    describe("spend"),
    describe("put", idempotentHint=True),
    describe("look", readOnlyHint=True),
    *map(describe, ["pid", "environment", "wait", "parts", "steps", "big", "ask", "sample", "grow", "blab"]),
]


def tools():
    if options.list:
        with open(options.list) as file:
            return json.load(file)
    return TOOLS + more_tools


def answer(message):
    method, number, params = message["method"], message["id"], message.get("params") or {}
    if method == "initialize":
        result = {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {"listChanged": True}, "logging": {}},
            "serverInfo": {"name": "test-server", "version": "7"},
        }
    elif method == "tools/list":
        result = {"tools": tools()}
    elif method == "tools/call":
        result = call(number, params)
    else:
        result = {}
    if result is not None:
        send({"id": number, "result": result})


STAY = "import signal, time\nfor s in (1, 2, 15): signal.signal(s, signal.SIG_IGN)\ntime.sleep(1000)"
LEAVE = """import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        os.execv(sys.argv[1], sys.argv[1:])
    os._exit(0)
"""


def have_family(path):
    """A child, one behind a shell that waits for it, and one that has left: forked twice, in a session of its own."""
    stay = [sys.executable, "-I", "-S", "-c", STAY]
    quiet = {"stdin": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    child = subprocess.Popen(stay, stdout=subprocess.DEVNULL, **quiet)
    shell = subprocess.Popen(["sh", "-c", '"$0" "$@" & echo $!; wait', *stay], stdout=subprocess.PIPE, **quiet)
    leaver = subprocess.Popen([sys.executable, "-I", "-S", "-c", LEAVE, *stay], stdout=subprocess.PIPE, **quiet)
    grandchild, left = shell.stdout.readline(), leaver.stdout.readline()
    leaver.wait()
    append(path + ".part", f"{os.getpid()} {child.pid} {shell.pid} {int(grandchild)} {int(left)}")
    os.rename(path + ".part", path)


def main():
    if options.life:
        append(options.life, str(os.getpid()))
    if options.stubborn:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
    if options.family:
        have_family(options.family)
    while options.hold and os.path.exists(options.hold):
        time.sleep(0.005)
    if options.exit:
        sys.stderr.write(options.exit + "\n")
        sys.exit(3)
    if options.nonsense:
        print("Welcome!\n<!doctype html>\n{\"jsonrpc\": 3}\n[]\n\x00\x01", flush=True)
    while options.complain:
        sys.stderr.write("all is lost\n" * 1000)
    for line in sys.stdin:
        message = json.loads(line)
        if options.silent or options.nonsense:
            continue
        if "method" not in message:
            asked[message["id"]][1] = message.get("result", message.get("error"))
            asked[message["id"]][0].set()
        elif "id" in message:
            threading.Thread(target=answer, args=(message,), daemon=True).start()
        elif options.heard:
            append(options.heard, line.strip())
    while options.stubborn:
        time.sleep(1000)
    os._exit(0)


main()
