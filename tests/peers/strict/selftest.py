"""Runs the vendors' own SDKs against the fakes: `python -m strict.selftest`.

A tool loop with reasoning must pass with each SDK, which shows that the fakes agree with the SDKs; then, for each rule, one
request that breaks it must be refused. Prints what was checked; ends with an error at the first difference.
"""

import base64
import copy
import json
import urllib.error
import urllib.request

import anthropic
import ollama
import openai
from google import genai
from google.genai import types

from .gemini import one_spelling
from .server import start

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 64).decode()
PDF = base64.b64encode(b"%PDF-1.7\n" + b"\0" * 64).decode()
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "array", "items": {"type": "integer"}}}, "required": ["city"]}
# Long enough for every vendor's cache.
LONG = "You are a careful assistant. " * 1000
STEPS = 3


class World:
    def __init__(self, base, name):
        self.base = f"{base}/s/{name}"

    def post(self, path, body, headers=None):
        """(status, body) of a plain request."""
        request = urllib.request.Request(self.base + path, json.dumps(body).encode(), {"content-type": "application/json", **(headers or {})})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def journal(self):
        with urllib.request.urlopen(self.base + "/__journal", timeout=60) as answer:
            return json.loads(answer.read())


def expect(holds, text):
    if not holds:
        raise SystemExit(f"FAILED: {text}")


def check_journal(world, requests):
    journal = world.journal()
    expect(len(journal) == requests, f"{len(journal)} requests instead of {requests}")
    for entry in journal:
        expect(entry["ok"], f"refused: {entry.get('error')} for {json.dumps(entry['body'])[:2000]}")
        expect(not entry["warnings"], f"warnings: {entry['warnings']}")
    return journal[-1]


def run_anthropic(base, model, thinking):
    world = World(base, f"anthropic-{model}")
    client = anthropic.Anthropic(api_key="test", base_url=world.base, max_retries=0)
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "Weather?"}, image]}]
    arguments = {
        "model": model, "max_tokens": 4096, "tools": [{"name": "weather", "description": "d", "input_schema": SCHEMA}], "thinking": thinking,
        "system": [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}], "cache_control": {"type": "ephemeral"},
    }
    cached = 0
    for step in range(STEPS + 1):
        with client.messages.stream(messages=messages, **arguments) as stream:
            answer = stream.get_final_message()
        cached = answer.usage.cache_read_input_tokens
        expect(any(block.type == "thinking" for block in answer.content), "Anthropic's fake did not think")
        messages.append({"role": "assistant", "content": [block.model_dump(exclude_none=True) for block in answer.content]})
        for block in messages[-1]["content"]:
            block.pop("parsed_output", None)
        calls = [block for block in answer.content if block.type == "tool_use"]
        if not calls:
            expect(answer.stop_reason == "end_turn" and step == STEPS, f"ended with {answer.stop_reason} at step {step}")
            break
        messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "sunny"} for call in calls]})
    expect(cached > 5000, f"only {cached} tokens came from the cache")
    return world, check_journal(world, STEPS + 1)


def run_responses(base, model):
    world = World(base, f"responses-{model}")
    client = openai.OpenAI(api_key="test", base_url=world.base + "/v1", max_retries=0)
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"}
    document = {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}
    items = [{"role": "user", "content": [{"type": "input_text", "text": "Weather?"}, image, document]}]
    cached = 0
    for step in range(STEPS + 1):
        stream = client.responses.create(
            model=model, input=items, instructions=LONG, stream=True, store=False, include=["reasoning.encrypted_content"], reasoning={"effort": "high", "summary": "auto"},
            tools=[{"type": "function", "name": "weather", "description": "d", "parameters": SCHEMA, "strict": False}], prompt_cache_key="session", stream_options={"include_obfuscation": False},
        )
        done = None
        for event in stream:
            if event.type == "response.output_item.done":
                items.append(event.item.model_dump(exclude_none=True, by_alias=True))
            if event.type == "response.completed":
                done = event.response
        cached = done.usage.input_tokens_details.cached_tokens
        calls = [item for item in done.output if item.type == "function_call"]
        expect(any(item.type == "reasoning" and item.summary for item in done.output), "OpenAI's fake did not think")
        if not calls:
            expect(step == STEPS, f"ended at step {step}")
            break
        items += [{"type": "function_call_output", "call_id": call.call_id, "output": "sunny"} for call in calls]
    expect(cached > 5000, f"only {cached} tokens came from the cache")
    return world, check_journal(world, STEPS + 1)


def run_chat(base, personality, model, reasoning, **options):
    """`reasoning` names the field of the delta that goes back with the message."""
    world = World(base, f"chat-{personality}")
    client = openai.OpenAI(api_key="test", base_url=f"{world.base}/{personality}/v1", max_retries=0)
    # Anthropic's cache behind OpenRouter keeps what is marked.
    marked = [{"type": "text", "text": LONG, "cache_control": {"type": "ephemeral"}}]
    messages = [{"role": "system", "content": marked if personality == "openrouter" else LONG}, {"role": "user", "content": "Weather?"}]
    for step in range(STEPS + 1):
        stream = client.chat.completions.create(
            model=model, messages=messages, stream=True, stream_options={"include_usage": True}, tools=[{"type": "function", "function": {"name": "weather", "description": "d", "parameters": SCHEMA}}], **options
        )
        text, calls, thought, usage = [], {}, {}, None
        for chunk in stream:
            usage = chunk.usage or usage
            for choice in chunk.choices:
                collect(choice.delta, text, calls, thought, reasoning)
        plain = "".join(text) if all(isinstance(each, str) for each in text) else [part for each in text if isinstance(each, list) for part in each]
        message = {"role": "assistant", "content": plain, **({reasoning: merged(thought[reasoning])} if reasoning in thought else {})}
        if not calls:
            expect(step == STEPS, f"{personality} ended at step {step}")
            break
        message["tool_calls"] = list(calls.values())
        messages.append(message)
        messages += [{"role": "tool", "tool_call_id": call["id"], "content": "sunny"} for call in calls.values()]
    expect(usage.prompt_tokens_details.cached_tokens > 5000, f"{personality}: {usage}")
    return world, check_journal(world, STEPS + 1)


def collect(delta, text, calls, thought, reasoning):
    if delta.content:
        text.append(delta.content)
    if extra := (delta.model_extra or {}).get(reasoning):
        thought.setdefault(reasoning, []).append(extra)
    for call in delta.tool_calls or []:
        known = calls.setdefault(call.index, {"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": ""}})
        known["function"]["arguments"] += call.function.arguments or ""


def merged(pieces):
    if isinstance(pieces[0], str):
        return "".join(pieces)
    details = {}
    for piece in (each for pieces in pieces for each in pieces):
        known = details.setdefault(piece["index"], {})
        known.update({key: known.get("text", "") + value if key == "text" else value for key, value in piece.items()})
    return [{key: each[key] for key in ("type", "format", "index", "text", "signature")} for each in details.values()]


def run_gemini(base, model, thinking):
    world = World(base, f"gemini-{model}")
    client = genai.Client(api_key="test", http_options=types.HttpOptions(base_url=world.base))
    contents = [types.Content(role="user", parts=[types.Part(text="Weather?"), types.Part.from_bytes(data=base64.b64decode(PNG), mime_type="image/png"), types.Part.from_bytes(data=base64.b64decode(PDF), mime_type="application/pdf")])]
    config = types.GenerateContentConfig(
        system_instruction=LONG, thinking_config=thinking, automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        tools=[types.Tool(function_declarations=[types.FunctionDeclaration(name="weather", description="d", parameters_json_schema=SCHEMA)])],
    )
    for step in range(STEPS + 1):
        parts, usage = [], None
        for chunk in client.models.generate_content_stream(model=model, contents=contents, config=config):
            usage = chunk.usage_metadata or usage
            for candidate in chunk.candidates or []:
                parts += (candidate.content.parts or []) if candidate.content else []
        expect(any(part.thought for part in parts), "Gemini's fake did not think")
        parts = [part for part in parts if not part.thought and (part.text or part.function_call or part.thought_signature)]
        contents.append(types.Content(role="model", parts=parts))
        calls = [part.function_call for part in parts if part.function_call]
        if not calls:
            expect(step == STEPS, f"ended at step {step}")
            break
        results = [types.Part(function_response=types.FunctionResponse(id=call.id, name=call.name, response={"output": "sunny"})) for call in calls]
        contents.append(types.Content(role="user", parts=results))
    expect((usage.cached_content_token_count or 0) > 5000, f"Gemini: {usage}")
    return world, check_journal(world, STEPS + 1)


def run_ollama(base, model):
    world = World(base, f"ollama-{model}")
    client = ollama.Client(host=world.base)
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Weather?", "images": [PNG]}]
    for step in range(STEPS + 1):
        message = {"role": "assistant", "content": "", "thinking": "", "tool_calls": []}
        for chunk in client.chat(model, messages, tools=[{"type": "function", "function": {"name": "weather", "description": "d", "parameters": SCHEMA}}], stream=True, think=True, options={"num_ctx": 8192}):
            message["content"] += chunk.message.content or ""
            message["thinking"] += chunk.message.thinking or ""
            message["tool_calls"] += [call.model_dump() for call in chunk.message.tool_calls or []]
        expect(message["thinking"], "Ollama's fake did not think")
        messages.append(message)
        if not message["tool_calls"]:
            expect(step == STEPS, f"ended at step {step}")
            break
        messages += [{"role": "tool", "content": "sunny", "tool_name": call["function"]["name"]} for call in message["tool_calls"]]
    return world, check_journal(world, STEPS + 1)


def at(body, path):
    for step in path:
        body = body[step]
    return body


def broken(world, entry, cases, headers):
    """Each case changes the last good request by one thing, and is refused with these words."""
    path = entry["path"]
    path = path[path.index("/", 3) :] if path.startswith("/s/") else path
    for change, words in cases:
        body = copy.deepcopy(entry["body"])
        given = dict(headers)
        change(body, given) if change.__code__.co_argcount == 2 else change(body)
        status, answer = world.post(path, body, given)
        text = answer
        try:
            text = json.dumps(json.loads(answer), ensure_ascii=False)
        except ValueError:
            pass
        # OpenAI tells of an overflow inside the stream.
        expect(status >= 400 or "context_length_exceeded" in text, f"{words!r} was expected, but the request was taken: {answer[:1000]}")
        expect(words.replace('"', '\\"') in text, f"{words!r} was expected, but the answer is {status}: {answer[:1000]}")
    return len(cases)


def main():
    from . import selftest_rules as rules

    base, loops, refused = start(), 0, 0
    adaptive = {"type": "adaptive", "display": "summarized"}
    for model, thinking, cases in [
        ("claude-sonnet-5-5", adaptive, rules.ANTHROPIC), ("claude-fable-5-2", {"type": "adaptive"}, []), ("claude-haiku-4-5", {"type": "enabled", "budget_tokens": 2048}, rules.ANTHROPIC_MANUAL),
    ]:
        world, entry = run_anthropic(base, model, thinking)
        refused += broken(world, entry, cases, {"x-api-key": "k", "anthropic-version": "2026-10-21"})
        loops += 1
    for model, cases in [("gpt-6-sol", rules.RESPONSES), ("gpt-5", rules.RESPONSES_OLD)]:
        world, entry = run_responses(base, model)
        refused += broken(world, entry, cases, {"authorization": "Bearer k"})
        loops += 1
    for personality, model, reasoning, options, cases in [
        ("openai", "gpt-6-sol", "none", {"reasoning_effort": "none"}, rules.CHAT), ("deepseek", "deepseek-flash", "reasoning_content", {}, rules.DEEPSEEK),
        ("kimi", "kimi-k2.6", "reasoning_content", {}, rules.KIMI), ("mistral", "mistral-medium-2604", "none", {"reasoning_effort": "high"}, rules.MISTRAL),
        ("groq", "openai/gpt-oss-120b", "reasoning", {}, rules.GROQ), ("openrouter", "anthropic/claude-sonnet-5.5", "reasoning_details", {}, rules.OPENROUTER),
        ("vllm", "Qwen/Qwen3-32B", "reasoning", {}, rules.VLLM),
    ]:
        world, entry = run_chat(base, personality, model, reasoning, **options)
        refused += broken(world, entry, cases, {"authorization": "Bearer k"})
        loops += 1
    for model, thinking, cases in [
        ("gemini-4-argon", types.ThinkingConfig(include_thoughts=True, thinking_level="HIGH"), rules.GEMINI), ("gemini-2.5-flash", types.ThinkingConfig(include_thoughts=True, thinking_budget=1024), rules.GEMINI_OLD),
    ]:
        world, entry = run_gemini(base, model, thinking)
        refused += broken(world, {"path": entry["path"] + "?alt=sse", "body": one_spelling(entry["body"])}, cases, {"x-goog-api-key": "k"})
        loops += 1
    world, entry = run_ollama(base, "qwen3-vl")
    refused += broken(world, entry, rules.OLLAMA, {})
    loops += 1
    lists(base)
    scripts(base)
    bindings(base)
    print(f"{loops} tool loops of the vendors' SDKs passed; {refused} broken requests were refused")


def scripts(base):
    """A script decides what each request gets, and its last step repeats."""
    world = World(base, "scripts")
    steps = [[{"error": {"status": 529}}], [{"text": "half"}, {"finish": "max_tokens"}], [{"refuse": "No."}], [{"text": "a"}, {"error": {"status": 529}}]]
    world.post("/__script", {"vendor": "anthropic", "model": "claude-opus-5-5", "steps": steps})
    world.post("/__settings", {"windows": {"claude-haiku-5-5": 100}})
    client = anthropic.Anthropic(api_key="test", base_url=world.base, max_retries=0)
    seen = []
    for model in ["claude-opus-5-5"] * 5 + ["claude-haiku-5-5"]:
        try:
            with client.messages.stream(model=model, max_tokens=100, messages=[{"role": "user", "content": "word " * 100}]) as stream:
                seen.append(stream.get_final_message().stop_reason)
        except anthropic.APIStatusError as error:
            seen.append(error.body["error"]["message"])
    expect(seen == ["Overloaded", "max_tokens", "refusal", "Overloaded", "Overloaded", "prompt is too long: 128 tokens > 100 maximum"], f"the script gave {seen}")


def bindings(base):
    """Thinking that is bound to another conversation is dropped where the request asks for it."""
    world = World(base, "bindings")
    client = anthropic.Anthropic(api_key="test", base_url=world.base, max_retries=0)
    arguments = {
        "model": "claude-fable-5-2", "max_tokens": 4096, "betas": ["thinking-binding-controls-2026-08-01"],
        "thinking": {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}},
    }
    messages, dropped = [{"role": "user", "content": "Hi"}], []
    for system in ("one", "one", "two"):
        with client.beta.messages.stream(messages=messages, system=system, **arguments) as stream:
            answer = stream.get_final_message()
        dropped.append(len(answer.input_transformations))
        content = [{"type": "thinking", "thinking": block.thinking, "signature": block.signature} if block.type == "thinking" else {"type": "text", "text": block.text} for block in answer.content]
        messages += [{"role": "assistant", "content": content}, {"role": "user", "content": "And?"}]
    expect(dropped == [0, 0, 2], f"dropped {dropped}")


def lists(base):
    """The SDKs can read the lists of models."""
    world = World(base, "lists")
    expect(len(openai.OpenAI(api_key="k", base_url=world.base + "/v1").models.list().data) > 10, "OpenAI's list")
    expect(anthropic.Anthropic(api_key="k", base_url=world.base).models.list().data[0].max_input_tokens == 1_000_000, "Anthropic's list")
    gemini = genai.Client(api_key="k", http_options=types.HttpOptions(base_url=world.base))
    expect(next(iter(gemini.models.list())).input_token_limit == 1_048_576, "Gemini's list")
    client = ollama.Client(host=world.base)
    expect(len(client.list().models) == 5, "Ollama's list")
    expect("tools" in client.show("qwen3").capabilities, "Ollama's show")


if __name__ == "__main__":
    main()
