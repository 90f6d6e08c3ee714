"""OpenAI's SDK for Python, told what to do: each line of the input is a command, each line of the output what came of it."""

import json
import sys

import openai

KNOWN = {
    "model", "messages", "stream", "stream_options", "tools", "tool_choice", "parallel_tool_calls", "temperature",
    "max_tokens", "max_completion_tokens", "n", "logprobs", "response_format", "stop",
}


def arguments(command):
    """What the SDK knows by name, and the rest, which it passes on."""
    params = command["params"]
    known = {name: value for name, value in params.items() if name in KNOWN}
    rest = {name: value for name, value in params.items() if name not in KNOWN}
    return {**known, "extra_body": rest, "extra_headers": command.get("headers", {})}


def streamed(client, command):
    chunks = []
    with client.chat.completions.create(**arguments(command)) as stream:
        for chunk in stream:
            chunks.append(chunk.model_dump(exclude_unset=True))
            if len(chunks) == command.get("close_after"):
                break
        headers = stream.response.headers
    return {"chunks": chunks, "session": headers.get("x-session-id"), "message": headers.get("x-message-id")}


def helped(client, command):
    """The SDK's own way to put an answer together from its chunks."""
    asked = arguments(command)
    asked.pop("stream", None)
    with client.chat.completions.stream(**asked) as stream:
        for _ in stream:
            pass
        return {"completion": stream.get_final_completion().model_dump(exclude_unset=True)}


def looped(client, command):
    """Runs tools until the model wants none any more, as applications do."""
    messages, rounds = list(command["params"]["messages"]), 0
    while True:
        rounds += 1
        asked = arguments({**command, "params": {**command["params"], "messages": messages}})
        completion = client.chat.completions.create(**asked)
        message = completion.choices[0].message
        messages.append(message.model_dump(exclude_none=True))
        if not message.tool_calls:
            return {"content": message.content, "rounds": rounds, "session": completion.session_id}
        for call in message.tool_calls:
            given = json.loads(call.function.arguments)
            content = f"{call.function.name} of {given['city']}"
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})


def run(command):
    client = openai.OpenAI(
        base_url=command["url"], api_key=command["key"], max_retries=command.get("retries", 0),
        timeout=command.get("timeout", 60),
    )
    operation = command["do"]
    if operation == "models":
        return {"models": [model.id for model in client.models.list()]}
    if operation == "model":
        return {"model": client.models.retrieve(command["id"]).model_dump()}
    if operation == "loop":
        return looped(client, command)
    if operation == "help":
        return helped(client, command)
    if command["params"].get("stream"):
        return streamed(client, command)
    return {"completion": client.chat.completions.create(**arguments(command)).model_dump(exclude_unset=True)}


for line in sys.stdin:
    try:
        told = run(json.loads(line))
    except openai.APIError as error:
        told = {
            "error": type(error).__name__, "status": getattr(error, "status_code", None), "code": error.code,
            "param": error.param, "type": error.type, "message": error.message,
        }
    print(json.dumps(told), flush=True)
