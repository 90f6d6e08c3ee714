"""Anthropic's answers as server-sent events, checked with the SDK's types before they are sent."""

import json

import pydantic
from anthropic.types import RawMessageStreamEvent
from anthropic.types.beta import BetaRawMessageStreamEvent

from .agent import spoken_tokens
from .anthropic_history import prefix_hash
from .core import Refused, digest, halves, seal

EVENT = pydantic.TypeAdapter(RawMessageStreamEvent)
BETA_EVENT = pydantic.TypeAdapter(BetaRawMessageStreamEvent)
KINDS = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error", 413: "request_too_large", 429: "rate_limit_error", 500: "api_error", 529: "overloaded_error"}


def error_body(error):
    status = error.get("status", 529)
    kind = error.get("type") or KINDS.get(status, "api_error")
    return error.get("body") or {"type": "error", "error": {"type": kind, "message": error.get("message", "Overloaded")}, "request_id": "req_011strictfake"}


def refuse_if_scripted(pieces, has_images):
    if pieces and "error" in pieces[0]:
        raise Refused(pieces[0]["error"].get("status", 529), error_body(pieces[0]["error"]), pieces[0]["error"].get("headers"))
    if has_images and any(piece.get("image_refused") for piece in pieces):
        from .anthropic import refuse

        refuse("messages.0.content.0.image.source.base64.data: Could not process image")


def frame(event, adapter):
    if event["type"] not in ("ping", "error"):
        adapter.validate_python(event)
    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode()


def events(scope, request, model, history, pieces, has_header):
    adapter = BETA_EVENT if request.headers.get("anthropic-beta") else EVENT
    send = lambda event: frame(event, adapter)
    output, thinking_tokens = spoken_tokens(pieces)
    scripted = {key: value for piece in pieces for key, value in piece.get("usage", {}).items()}
    creation = {"ephemeral_5m_input_tokens": history.usage["cache_creation_input_tokens"], "ephemeral_1h_input_tokens": 0}
    usage = {**history.usage, "cache_creation": creation, "output_tokens": 1, "service_tier": "standard", **{k: v for k, v in scripted.items() if k != "output_tokens"}}
    message = {
        "id": scope.new_id("msg_01", 22), "type": "message", "role": "assistant", "model": request.model, "content": [],
        "stop_reason": None, "stop_sequence": None, "stop_details": None, "usage": usage,
    }
    if has_header:
        message["input_transformations"] = history.dropped
    yield send({"type": "message_start", "message": message})
    yield send({"type": "ping"})
    display = (request.body.get("thinking") or {}).get("display") or model.display
    blocks, previous, reason, details = [], history.last_thinking, None, None
    for piece in pieces:
        if "ping" in piece:
            for _ in range(piece["ping"]):
                yield send({"type": "ping"})
        elif "pause_ms" in piece:
            yield float(piece["pause_ms"])
        elif piece.get("cut"):
            yield None
            return
        elif "raw" in piece:
            yield f"event: {piece['raw']['type']}\ndata: {json.dumps(piece['raw'])}\n\n".encode()
        elif "error" in piece:
            yield send({key: value for key, value in error_body(piece["error"]).items()})
            return
        elif "finish" in piece:
            reason = piece["finish"]
        elif "refuse" in piece:
            reason, details = "refusal", {"type": "refusal", "category": "cyber", "explanation": piece["refuse"]}
        elif "thinking" in piece or "redacted" in piece:
            prefix = prefix_hash(request.body, history_with(history, blocks))
            identity = scope.new_id("", 12)
            text = piece.get("thinking", "")
            signature = seal(vendor="anthropic", model=request.model, prefix=prefix, previous=previous, text=digest(text)[:16], id=identity)
            previous = identity
            if "redacted" in piece:
                blocks.append({"type": "redacted_thinking", "data": signature})
                yield from whole(send, len(blocks) - 1, blocks[-1], [])
                continue
            shown = "" if display == "omitted" else text
            blocks.append({"type": "thinking", "thinking": shown, "signature": signature})
            deltas = [{"type": "thinking_delta", "thinking": each} for each in halves(shown)] + [{"type": "signature_delta", "signature": signature}]
            yield from whole(send, len(blocks) - 1, {"type": "thinking", "thinking": "", "signature": ""}, deltas)
        elif "text" in piece:
            blocks.append({"type": "text", "text": piece["text"]})
            start = {"type": "text", "text": "", "citations": None}
            yield from whole(send, len(blocks) - 1, start, [{"type": "text_delta", "text": each} for each in halves(piece["text"])])
        elif "call" in piece:
            call = piece["call"]
            block = {"type": "tool_use", "id": call.get("id") or scope.new_id("toolu_01", 22), "name": call["name"], "input": call.get("input", {})}
            blocks.append(block)
            text = json.dumps(block["input"])
            deltas = [{"type": "input_json_delta", "partial_json": each} for each in ["", *halves(text)]] if block["input"] else []
            yield from whole(send, len(blocks) - 1, {**block, "input": {}}, deltas)
    for block in blocks:
        if block["type"] == "tool_use":
            scope.issued[block["id"]] = blocks
    if reason is None:
        reason = "tool_use" if any(block["type"] == "tool_use" for block in blocks) else "end_turn"
    delta = {"stop_reason": reason, "stop_sequence": None, "stop_details": details, "container": None}
    final = {**history.usage, "output_tokens": output, "output_tokens_details": {"thinking_tokens": thinking_tokens}, **scripted}
    yield send({"type": "message_delta", "delta": delta, "usage": final})
    yield send({"type": "message_stop"})


def history_with(history, blocks):
    """The conversation with the answer so far, as the next request will bring it."""
    return [*history.messages, ["assistant", blocks]]


def whole(send, index, start, deltas):
    yield send({"type": "content_block_start", "index": index, "content_block": start})
    for delta in deltas:
        yield send({"type": "content_block_delta", "index": index, "delta": delta})
    yield send({"type": "content_block_stop", "index": index})
