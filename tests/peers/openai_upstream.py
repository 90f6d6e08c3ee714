"""A model behind the server that does as it is told: it answers from the request alone, so that one process serves many
clients at once and no test has to script it first.

What the last message of the user says decides:

- the name of a tool that is offered: it is called, all that are named at once, `request_form` with a form that fits it; `both`: with Oslo and with Rome;
  `again`: once more after the first results
- `silence`: 16 s before the first token of the first answer, and 16 s between tokens of the last one
- `hiccup`: the first attempt at every answer is a 503
- `cut`: the first attempt at every answer ends in the middle
- `expect {...}` to the end of the text: what the request must hold, by dotted path; what it lacks is said in the answer

`tool_choice` and `response_format` are obeyed: what is forced is called, and a schema gets a value that fits it. Whatever
else OpenAI would refuse is refused, and kept for `GET /__problems`. Every request is kept for `GET /__journal`.

Prints its base URL; ends when its input does.
"""

import base64
import http.server
import json
import os
import re
import sys
import threading
import time

SILENCE = 16
CITIES = ("Oslo", "Rome", "Lima")
PNG = b"\x89PNG\r\n\x1a\n"
# All that OpenAI takes; anything else is a field that the server made up, or passed on without knowing it.
FIELDS = set("""
    model messages stream stream_options tools tool_choice parallel_tool_calls response_format stop seed temperature top_p
    presence_penalty frequency_penalty max_tokens max_completion_tokens reasoning_effort logit_bias logprobs top_logprobs n
    user metadata store modalities service_tier prompt_cache_key prompt_cache_retention safety_identifier verbosity
""".split())


class Bad(Exception):
    """What OpenAI would refuse."""


def need(is_so, words):
    if not is_so:
        raise Bad(words)


def check(body):
    """Refuses what OpenAI would refuse."""
    need(isinstance(body, dict), "the body is no object")
    unknown = sorted(set(body) - FIELDS)
    need(not unknown, f"unknown fields {unknown}")
    need(isinstance(body.get("model"), str), "no model")
    nulls = sorted(name for name, value in body.items() if value is None)
    need(not nulls, f"null in {nulls}")
    names = [check_tool(tool) for tool in body.get("tools", [])]
    need(len(set(names)) == len(names), f"two tools of one name in {names}")
    need("tools" not in body or names, "an empty list of tools")
    for field in ("tool_choice", "parallel_tool_calls"):
        need(field not in body or names, f"{field} without tools")
    choice = body.get("tool_choice", "auto")
    if isinstance(choice, dict):
        need(choice.get("type") == "function" and choice["function"]["name"] in names, f"tool_choice {choice} of {names}")
    else:
        need(choice in ("auto", "none", "required"), f"tool_choice {choice}")
    form = body.get("response_format", {"type": "text"})
    need(form.get("type") in ("text", "json_object", "json_schema"), f"response_format {form}")
    if form["type"] == "json_schema":
        wanted = form.get("json_schema", {})
        need(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", wanted.get("name", "")), f"name of the schema in {form}")
        need(isinstance(wanted.get("schema"), dict), f"no schema in {form}")
        if wanted.get("strict"):
            check_strict(wanted["schema"], wanted["schema"])
    if form["type"] == "json_object":
        need("json" in json.dumps(body["messages"]).lower(), "json_object, and no message says json")
    stop = body.get("stop", [])
    need(isinstance(stop, (str, list)) and len(stop) <= (4 if isinstance(stop, list) else 100), f"stop {stop}")
    for name, low, high in (("temperature", 0, 2), ("top_p", 0, 1), ("presence_penalty", -2, 2), ("frequency_penalty", -2, 2)):
        value = body.get(name, 0)
        need(isinstance(value, (int, float)) and low <= value <= high, f"{name} {value}")
    check_messages(body.get("messages"))


def check_tool(tool):
    need(tool.get("type") == "function", f"tool {tool}")
    function = tool["function"]
    need(re.fullmatch(r"[A-Za-z0-9_-]{1,64}", function.get("name", "")), f"name of {tool}")
    schema = function.get("parameters", {"type": "object", "properties": {}})
    need(schema.get("type") == "object", f"parameters of {tool}")
    if function.get("strict"):
        check_strict(schema, schema)
    return function["name"]


def check_strict(schema, root):
    """The two rules of strict schemas that clients get wrong, or servers when they rewrite schemas."""
    if "properties" in schema:
        need(schema.get("additionalProperties") is False, f"strict, and additionalProperties is not false in {schema}")
        need(set(schema.get("required", [])) == set(schema["properties"]), f"strict, and not all is required in {schema}")
    for each in [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values(), *schema.get("anyOf", [])]:
        check_strict(each, root)
    if isinstance(schema.get("items"), dict):
        check_strict(schema["items"], root)


def check_messages(messages):
    need(isinstance(messages, list) and messages, "no messages")
    open_calls = []
    for message in messages:
        role, content = message.get("role"), message.get("content")
        if role == "tool":
            need(message.get("tool_call_id") in open_calls, f"a result without its call: {message}")
            open_calls.remove(message["tool_call_id"])
        else:
            need(not open_calls, f"calls without results: {open_calls}")
        need(role in ("system", "developer", "user", "assistant", "tool"), f"role {role}")
        if role == "assistant":
            calls = message.get("tool_calls", [])
            need(content or calls, "an assistant's message with nothing in it")
            for call in calls:
                need(call["type"] == "function" and isinstance(json.loads(call["function"]["arguments"]), dict), f"call {call}")
            open_calls = [call["id"] for call in calls]
        else:
            need(content not in (None, []), f"{role} says nothing")
        for part in content if isinstance(content, list) else []:
            if part.get("type") == "image_url":
                need(role == "user", f"an image of {role}")
                image(part)
            else:
                need(part.get("type") == "text" and isinstance(part.get("text"), str), f"part {part}")
    need(not open_calls, f"calls without results: {open_calls}")


def image(part):
    """What can be seen of an image."""
    url = part["image_url"]["url"]
    if url.startswith("https://"):
        return f"the image at {url}"
    match = re.fullmatch(r"data:image/(png|jpeg|gif|webp);base64,(.*)", url, re.DOTALL)
    need(match, f"image {url[:60]}")
    data = base64.b64decode(match[2], validate=True)
    need(data.startswith(PNG), "an image that is no PNG")
    return f"a PNG of {len(data)} bytes"


def text_of(message):
    content = message.get("content") or ""
    return content if isinstance(content, str) else "\n".join(part.get("text", "") for part in content)


def value_for(schema, root, name="", city="Oslo"):
    """A value that fits a schema."""
    inner = lambda each, at="": value_for(each, root, at, city)
    if "$ref" in schema:
        target = root
        for step in schema["$ref"].split("/")[1:]:
            target = target[step]
        return inner(target, name)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    for each in ("anyOf", "oneOf", "allOf"):
        if each in schema:
            return inner(schema[each][0], name)
    kind = schema.get("type", "object" if "properties" in schema else "string")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {at: inner(each, at) for at, each in schema.get("properties", {}).items()}
    if kind == "array":
        return [inner(schema.get("items", {}), name)] * 2
    if kind == "string":
        return city if "city" in name.lower() or "name" in name.lower() else "some words"
    return {"integer": 7, "number": 1.5, "boolean": True, "null": None}[kind]


def lacking(body, expected):
    """Which of the expected things a request does not hold, in words."""
    lacks = []
    for path, wanted in expected.items():
        found = body
        for step in path.split("."):
            if isinstance(found, list) and step.isdigit() and int(step) < len(found):
                found = found[int(step)]
            else:
                found = found.get(step) if isinstance(found, dict) else None
        if found != wanted:
            lacks.append(f"{path} is {json.dumps(found)} and not {json.dumps(wanted)}")
    return lacks


def answer(body):
    """What is said: a text or calls of tools, whether it is the last answer to the message, and the message."""
    messages = body["messages"]
    last_user = max(at for at, message in enumerate(messages) if message["role"] == "user")
    asked, since = text_of(messages[last_user]), messages[last_user + 1 :]
    words, _, expected = asked.partition("expect {")
    rounds = sum(message["role"] == "assistant" and bool(message.get("tool_calls")) for message in since)
    results = [text_of(message) for message in since if message["role"] == "tool"]
    tools = {tool["function"]["name"]: tool["function"] for tool in body.get("tools", [])}
    choice, form = body.get("tool_choice", "auto"), body.get("response_format", {"type": "text"})
    if expected:
        if lacks := lacking(body, json.loads("{" + expected)):
            return {"text": "the request lacks what was expected: " + "; ".join(lacks)}, True, asked

    named = [] if choice == "none" else [name for name in tools if re.search(rf"\b{re.escape(name)}\b", words)]

    def calls(names):
        made = []
        for name in names:
            schema = tools[name].get("parameters", {})
            if name == "request_form":
                made.append({"name": name, "input": {"kind": "approval", "title": "May I?"}})
                continue
            cities = ("Oslo", "Rome") if "both" in words.split() and name in words else (CITIES[rounds % 3 if name in named else 0],)
            made += [{"name": name, "input": value_for(schema, schema, "", city)} for city in cities]
        if body.get("parallel_tool_calls") is False:
            made = made[:1]
        return made

    if isinstance(choice, dict):
        return {"calls": calls([choice["function"]["name"]])}, True, asked
    if named and rounds < (2 if "again" in words.split() else 1):
        return {"calls": calls(named)}, False, asked
    if choice == "required":
        # What is not named in the message is what a client wants the last answer in.
        rest = [name for name in tools if name not in named] or list(tools)
        return {"calls": calls(rest[:1])}, True, asked
    if form["type"] == "json_schema":
        schema = form["json_schema"]["schema"]
        return {"text": json.dumps(value_for(schema, schema))}, True, asked
    if form["type"] == "json_object":
        return {"text": '{"city": "Oslo", "degrees": 7, "notes": ["some words", "some words"]}'}, True, asked
    seen = [image(part) for part in messages[last_user]["content"] if part["type"] == "image_url"] if isinstance(messages[last_user]["content"], list) else []
    if seen:
        return {"text": "I see " + " and ".join(seen)}, True, asked
    if results:
        return {"text": "The tools said: " + "; ".join(results)}, True, asked
    return {"text": f"You said: {words.strip()}"}, True, asked


class Upstream:
    def __init__(self):
        self.lock, self.journal, self.problems, self.attempts = threading.Lock(), [], [], {}

    def attempt(self, body):
        """How often the very same was asked before."""
        key = json.dumps(body["messages"], sort_keys=True)
        with self.lock:
            self.attempts[key] = self.attempts.get(key, -1) + 1
            return self.attempts[key]


UPSTREAM = Upstream()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, body):
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        if self.path == "/__problems":
            return self.reply(200, UPSTREAM.problems)
        if self.path == "/__journal":
            return self.reply(200, UPSTREAM.journal)
        self.reply(200, {"object": "list", "data": [{"id": "told", "object": "model", "created": 1, "owned_by": "test"}]})

    def do_POST(self):
        try:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            with UPSTREAM.lock:
                UPSTREAM.journal.append(body)
            try:
                check(body)
                said, is_last, asked = answer(body)
            except (Bad, KeyError, TypeError, ValueError, AttributeError) as problem:
                words = str(problem) if isinstance(problem, Bad) else repr(problem)
                with UPSTREAM.lock:
                    UPSTREAM.problems.append({"problem": words, "body": body})
                return self.reply(400, {"error": {"message": words, "type": "invalid_request_error", "param": None, "code": None}})
            words = asked.split()
            attempt = UPSTREAM.attempt(body) if {"hiccup", "cut"} & set(words) else 1
            if attempt == 0 and "hiccup" in words:
                return self.reply(503, {"error": {"message": "overloaded", "type": "server_error", "param": None, "code": None}})
            is_first = not any(message["role"] == "assistant" for message in body["messages"])
            before = SILENCE if "silence" in words and is_first else 0
            between = SILENCE if "silence" in words and is_last else 0
            time.sleep(before)
            if body.get("stream"):
                return self.stream(body, said, between, attempt == 0 and "cut" in words)
            time.sleep(between)
            self.reply(200, whole(body, said))
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def stream(self, body, said, between, is_cut):
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

        def send(choices, **more):
            value = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": body["model"], "choices": choices, **more}
            data = b"data: " + json.dumps(value).encode() + b"\n\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()

        def delta(value, finish=None):
            send([{"index": 0, "delta": value, "logprobs": None, "finish_reason": finish}])

        delta({"role": "assistant", "content": ""})
        pieces = deltas(said)
        for at, piece in enumerate(pieces):
            if at == len(pieces) // 2:
                time.sleep(between)
                if is_cut:
                    self.close_connection = True
                    return
            delta(piece)
        delta({}, "tool_calls" if "calls" in said else "stop")
        if body.get("stream_options", {}).get("include_usage"):
            send([], usage=USAGE)
        data = b"data: [DONE]\n\n"
        self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(data), data))


USAGE = {"prompt_tokens": 20, "completion_tokens": 10, "total_tokens": 30}


def tool_calls(said):
    for at, call in enumerate(said["calls"]):
        yield {"id": f"call_{os.urandom(8).hex()}", "type": "function", "function": {"name": call["name"], "arguments": json.dumps(call["input"])}}


def deltas(said):
    """An answer in pieces, as a stream brings it."""
    if "text" in said:
        return [{"content": piece} for piece in re.findall(r".{1,12}", said["text"], re.DOTALL)]
    pieces = []
    for at, call in enumerate(tool_calls(said)):
        arguments = call["function"].pop("arguments")
        pieces.append({"tool_calls": [{"index": at, **call, "function": {**call["function"], "arguments": ""}}]})
        pieces += [{"tool_calls": [{"index": at, "function": {"arguments": piece}}]} for piece in re.findall(r".{1,12}", arguments, re.DOTALL)]
    return pieces


def whole(body, said):
    message = {"role": "assistant", "content": said.get("text")}
    if "calls" in said:
        message["tool_calls"] = list(tool_calls(said))
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls" if "calls" in said else "stop"}
    return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"], "choices": [choice], "usage": USAGE}


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, client_address):
        # Clients that go away in the middle are part of the tests.
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


def main():
    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{server.server_address[1]}/v1", flush=True)
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    main()
