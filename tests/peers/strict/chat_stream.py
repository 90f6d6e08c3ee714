"""Answers of chat completions as server-sent events. OpenAI's own are checked with the SDK's types."""

import json

from openai.types.chat import ChatCompletionChunk

from .agent import spoken_tokens
from .core import BASE62, halves

FINISH = {"max_tokens": "length", "refusal": "content_filter", "end_turn": "stop"}


def events(scope, request, person, pieces, used):
    identity = scope.new_id("chatcmpl-")
    wants_usage = person.always_usage or (request.body.get("stream_options") or {}).get("include_usage")

    def chunk(delta=None, finish=None, usage=None, choices=True):
        value = {"id": identity, "object": "chat.completion.chunk", "created": 1763400000, "model": request.model, "choices": []}
        if choices:
            value["choices"] = [{"index": 0, "delta": delta or {}, "logprobs": None, "finish_reason": finish}]
        if usage is not None:
            value["usage"] = usage
        if person.reasoning_field != "parts" or not isinstance((delta or {}).get("content"), list):
            # Reasoning is an addition of others, which the SDK's type lets pass.
            ChatCompletionChunk.model_validate(value)
        return b"data: " + json.dumps(value).encode() + b"\n\n"

    yield chunk({"role": "assistant", "content": ""})
    if person.name in ("deepseek", "openrouter"):
        yield b": keep-alive\n\n" if person.name == "deepseek" else b": OPENROUTER PROCESSING\n\n"
    finish, ids, details, thinking = None, [], [], ""
    for piece in pieces:
        if "ping" in piece:
            for _ in range(piece["ping"]):
                yield b": ping\n\n"
        elif "pause_ms" in piece:
            yield float(piece["pause_ms"])
        elif piece.get("cut"):
            yield None
            return
        elif "raw" in piece:
            yield b"data: " + json.dumps(piece["raw"]).encode() + b"\n\n"
        elif "error" in piece:
            error = {"message": piece["error"].get("message", "The server had an error."), "type": piece["error"].get("type", "server_error"), "code": piece["error"].get("code")}
            yield b"data: " + json.dumps({"error": error}).encode() + b"\n\n"
            return
        elif "finish" in piece:
            finish = FINISH.get(piece["finish"], piece["finish"])
        elif "thinking" in piece:
            thinking += piece["thinking"]
            for delta in reasoning_deltas(scope, person, piece["thinking"], details):
                yield chunk(delta)
        elif "refuse" in piece:
            for each in halves(piece["refuse"]):
                yield chunk({"refusal": each})
        elif "text" in piece:
            for each in halves(piece["text"]):
                yield chunk({"content": [{"type": "text", "text": each}] if person.reasoning_field == "parts" and thinking else each})
        elif "call" in piece:
            call = piece["call"]
            ids.append(call.get("id") or scope.new_id(person.id_prefix, person.id_length, BASE62))
            text = call.get("arguments", json.dumps(call.get("input", {})))
            first = {"index": len(ids) - 1, "id": ids[-1], "type": "function", "function": {"name": call["name"], "arguments": text if person.name == "mistral" else ""}}
            yield chunk({"tool_calls": [first]})
            for each in halves(text) if person.name != "mistral" else []:
                yield chunk({"tool_calls": [{"index": len(ids) - 1, "function": {"arguments": each}}]})
    if person.reasoning_field == "reasoning_details":
        person.remember(scope, ids, details)
        bound = person.binding(request.body, request.body["messages"])
        scope.issued |= {detail["signature"]: bound for detail in details}
    elif person.reasoning_field:
        person.remember(scope, ids, thinking)
    output, reasoned = spoken_tokens(pieces)
    usage = {
        "prompt_tokens": used["input"], "completion_tokens": output, "total_tokens": used["input"] + output,
        "prompt_tokens_details": {"cached_tokens": used["cached"]}, "completion_tokens_details": {"reasoning_tokens": reasoned},
    }
    if person.name == "deepseek":
        usage |= {"prompt_cache_hit_tokens": used["cached"], "prompt_cache_miss_tokens": used["input"] - used["cached"]}
    for piece in pieces:
        usage |= piece.get("usage", {})
    last = finish or ("tool_calls" if ids else "stop")
    if person.name in ("deepseek", "mistral", "kimi"):
        yield chunk(finish=last, usage=usage)
    else:
        yield chunk(finish=last)
        if wants_usage:
            yield chunk(usage=usage, choices=False)
    yield b"data: [DONE]\n\n"


def reasoning_deltas(scope, person, text, details):
    field = person.reasoning_field
    if field in ("reasoning", "reasoning_content"):
        return [{field: each} for each in halves(text)]
    if field == "parts":
        return [{"content": [{"type": "thinking", "thinking": [{"type": "text", "text": each}]}]} for each in halves(text)]
    if field != "reasoning_details":
        return []
    index = len(details)
    common = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": index}
    deltas = [{"reasoning": each, "reasoning_details": [{**common, "text": each}]} for each in halves(text)]
    signature = scope.new_id("sig")
    deltas.append({"reasoning_details": [{**common, "signature": signature}]})
    details.append({**common, "text": text, "signature": signature})
    return deltas
