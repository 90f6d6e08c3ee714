"""Answers of OpenAI's Responses API as server-sent events, checked with the SDK's types before they are sent."""

import json

import pydantic
from openai.types.responses import ResponseStreamEvent

from .agent import spoken_tokens
from .core import Refused, halves, seal

EVENT = pydantic.TypeAdapter(ResponseStreamEvent)
KINDS = {401: "invalid_request_error", 429: "rate_limit_error", 500: "server_error", 503: "server_error"}


def error_body(error):
    status = error.get("status", 500)
    kind = error.get("type") or KINDS.get(status, "invalid_request_error")
    return error.get("body") or {"error": {"message": error.get("message", "The server had an error while processing your request."), "type": kind, "param": error.get("param"), "code": error.get("code")}}


def refuse_if_scripted(pieces, has_images):
    if pieces and "error" in pieces[0]:
        raise Refused(pieces[0]["error"].get("status", 500), error_body(pieces[0]["error"]), pieces[0]["error"].get("headers"))
    if has_images and any(piece.get("image_refused") for piece in pieces):
        raise Refused(400, {"error": {"message": "You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp'].", "type": "invalid_request_error", "param": "input", "code": "invalid_image_format"}})


def belong(scope, identity, reasoning):
    """Remembers the reasoning that an item directly follows: with its id the item may not come back alone."""
    if reasoning:
        scope.issued[identity] = reasoning


class Stream:
    """One response while it is streamed."""

    def __init__(self, scope, body):
        self.number, self.output = -1, []
        reasoning = body.get("reasoning") or {}
        self.response = {
            "id": scope.new_id("resp_", 48, "0123456789abcdef"), "object": "response", "created_at": 1763400000, "status": "in_progress",
            "background": False, "error": None, "incomplete_details": None, "instructions": body.get("instructions"),
            "max_output_tokens": body.get("max_output_tokens"), "model": body.get("model"), "output": [], "parallel_tool_calls": body.get("parallel_tool_calls", True),
            "previous_response_id": None, "prompt_cache_key": body.get("prompt_cache_key"),
            "reasoning": {"effort": reasoning.get("effort"), "summary": reasoning.get("summary")}, "service_tier": "default", "store": body.get("store", True),
            "temperature": body.get("temperature", 1.0), "text": body.get("text") or {"format": {"type": "text"}, "verbosity": "medium"},
            "tool_choice": body.get("tool_choice", "auto"), "tools": [{"parameters": None, "strict": True, **tool} for tool in body.get("tools") or []],
            "top_p": body.get("top_p", 1.0), "truncation": "disabled", "usage": None, "user": None, "metadata": {},
        }

    def send(self, kind, **fields):
        self.number += 1
        event = {"type": kind, "sequence_number": self.number, **fields}
        if kind != "error" and kind != "keepalive":
            EVENT.validate_python(event)
        return f"event: {kind}\ndata: {json.dumps(event)}\n\n".encode()

    def item(self, first, last, *between):
        """An output item with the events between its beginning and its end."""
        index = len(self.output)
        self.output.append(last)
        yield self.send("response.output_item.added", output_index=index, item=first)
        for kind, fields in between:
            yield self.send(kind, output_index=index, item_id=last["id"], **fields)
        yield self.send("response.output_item.done", output_index=index, item=last)


def overflow(scope, body, error):
    stream = Stream(scope, body)
    yield stream.send("response.created", response=stream.response)
    yield stream.send("response.in_progress", response=stream.response)
    yield stream.send("error", error=error)


def events(scope, request, pieces, used):
    body = request.body
    stream = Stream(scope, body)
    summary = (body.get("reasoning") or {}).get("summary")
    yield stream.send("response.created", response=stream.response)
    yield stream.send("response.in_progress", response=stream.response)
    calls = [piece["call"].get("id") or scope.new_id("call_") for piece in pieces if "call" in piece]
    count, reasoning, finish = 0, None, None
    last_text = max((at for at, piece in enumerate(pieces) if "text" in piece or "refuse" in piece), default=-1)
    for at, piece in enumerate(pieces):
        if "ping" in piece:
            for _ in range(piece["ping"]):
                yield stream.send("keepalive")
        elif "pause_ms" in piece:
            yield float(piece["pause_ms"])
        elif piece.get("cut"):
            yield None
            return
        elif "raw" in piece:
            yield f"event: {piece['raw']['type']}\ndata: {json.dumps(piece['raw'])}\n\n".encode()
        elif "error" in piece:
            failed = {**stream.response, "status": "failed", "error": {"code": piece["error"].get("code", "server_error"), "message": piece["error"].get("message", "The server had an error.")}}
            yield stream.send("response.failed", response=failed)
            return
        elif "finish" in piece:
            finish = piece["finish"]
        elif "thinking" in piece:
            identity = scope.new_id("rs_", 48, "0123456789abcdef")
            reasoning = identity
            sealed = seal(vendor="openai", model=request.model, id=identity)
            yield from thought(stream, identity, sealed, piece["thinking"], summary)
        elif "text" in piece or "refuse" in piece:
            identity = scope.new_id("msg_", 48, "0123456789abcdef")
            belong(scope, identity, reasoning)
            reasoning = None
            phase = "final_answer" if at == last_text and not calls else "commentary"
            yield from said(stream, identity, piece, phase)
        elif "call" in piece:
            name, text = piece["call"]["name"], json.dumps(piece["call"].get("input", {}))
            text = piece["call"].get("arguments", text)
            item = {"id": scope.new_id("fc_", 48, "0123456789abcdef"), "type": "function_call", "status": "completed", "call_id": calls[count], "name": name, "arguments": text}
            count += 1
            belong(scope, item["id"], reasoning)
            reasoning = None
            deltas = [("response.function_call_arguments.delta", {"delta": each}) for each in halves(text)]
            yield from stream.item({**item, "status": "in_progress", "arguments": ""}, item, *deltas, ("response.function_call_arguments.done", {"arguments": text, "name": name}))
    output, reasoned = spoken_tokens(pieces)
    usage = {
        "input_tokens": used["input"], "input_tokens_details": {"cached_tokens": used["cached"], "cache_write_tokens": max(0, used["input"] - used["cached"])},
        "output_tokens": output, "output_tokens_details": {"reasoning_tokens": reasoned}, "total_tokens": used["input"] + output,
    }
    for piece in pieces:
        usage.update(piece.get("usage", {}))
    done = {**stream.response, "status": "completed", "output": stream.output, "usage": usage}
    if finish in ("max_tokens", "max_output_tokens", "content_filter"):
        reason = "content_filter" if finish == "content_filter" else "max_output_tokens"
        yield stream.send("response.incomplete", response={**done, "status": "incomplete", "incomplete_details": {"reason": reason}})
        return
    yield stream.send("response.completed", response=done)


def thought(stream, identity, sealed, text, summary):
    item = {"id": identity, "type": "reasoning", "summary": [], "encrypted_content": sealed}
    # What comes with the beginning may be incomplete, and must not be kept.
    first = {**item, "encrypted_content": sealed[:16]}
    if not summary:
        yield from stream.item(first, item)
        return
    part = {"type": "summary_text", "text": text}
    at = {"summary_index": 0}
    between = [("response.reasoning_summary_part.added", {**at, "part": {**part, "text": ""}})]
    between += [("response.reasoning_summary_text.delta", {**at, "delta": each}) for each in halves(text)]
    between += [("response.reasoning_summary_text.done", {**at, "text": text}), ("response.reasoning_summary_part.done", {**at, "part": part})]
    yield from stream.item(first, {**item, "summary": [part]}, *between)


def said(stream, identity, piece, phase):
    item = {"id": identity, "type": "message", "role": "assistant", "status": "completed", "phase": phase}
    at = {"content_index": 0}
    if "text" in piece:
        text = piece["text"]
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        between = [("response.output_text.delta", {**at, "delta": each, "logprobs": []}) for each in halves(text)]
        between.append(("response.output_text.done", {**at, "text": text, "logprobs": []}))
        empty = {**part, "text": ""}
    else:
        text = piece["refuse"]
        part = {"type": "refusal", "refusal": text}
        between = [("response.refusal.delta", {**at, "delta": each}) for each in halves(text)] + [("response.refusal.done", {**at, "refusal": text})]
        empty = {**part, "refusal": ""}
    between = [("response.content_part.added", {**at, "part": empty}), *between, ("response.content_part.done", {**at, "part": part})]
    yield from stream.item({**item, "status": "in_progress", "content": []}, {**item, "content": [part]}, *between)
