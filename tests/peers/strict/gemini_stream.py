"""Gemini's answers as server-sent events, checked with the SDK's types before they are sent."""

import json

from google.genai import types

from .core import Refused, halves, seal, token_count

STATUS = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}
FINISH = {"max_tokens": "MAX_TOKENS", "stop": "STOP", "refusal": "SAFETY", "content_filter": "SAFETY"}


def error_body(error):
    status = error.get("status", 503)
    inner = {"code": status, "message": error.get("message", "The model is overloaded. Please try again later."), "status": error.get("type") or STATUS.get(status, "UNKNOWN")}
    if error.get("details"):
        inner["details"] = error["details"]
    return error.get("body") or {"error": inner}


def refuse_if_scripted(pieces, has_images):
    if pieces and "error" in pieces[0]:
        raise Refused(pieces[0]["error"].get("status", 503), error_body(pieces[0]["error"]), pieces[0]["error"].get("headers"))
    if has_images and any(piece.get("image_refused") for piece in pieces):
        raise Refused(400, error_body({"status": 400, "message": "Unable to process input image. Please retry or report in https://developers.generativeai.google/guide/troubleshooting"}))


def frame(chunk):
    types.GenerateContentResponse.model_validate_json(json.dumps(chunk))
    return f"data: {json.dumps(chunk)}\r\n\r\n".encode()


def events(scope, request, body, model, pieces, used):
    identity = scope.new_id("", 22)
    config = (body.get("generationConfig") or {}).get("thinkingConfig") or {}
    state = {"thoughts": 0, "candidates": 0}
    scripted = {key: value for piece in pieces for key, value in piece.get("usage", {}).items()}

    def chunk(parts=None, **rest):
        usage = {"promptTokenCount": used["prompt"], "totalTokenCount": used["prompt"] + state["thoughts"] + state["candidates"]}
        for key, value in (("cachedContentTokenCount", used["cached"]), ("thoughtsTokenCount", state["thoughts"]), ("candidatesTokenCount", state["candidates"])):
            if value:
                usage[key] = value
        candidate = {"index": 0, **rest}
        if parts is not None:
            candidate["content"] = {"role": "model", "parts": parts}
        return frame({"candidates": [candidate], "usageMetadata": {**usage, **scripted}, "modelVersion": request.model, "responseId": identity})

    finish, message, signed = None, None, False
    has_calls = any("call" in piece for piece in pieces)
    if pieces and "refuse" in pieces[0]:
        yield frame({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": used["prompt"], "totalTokenCount": used["prompt"]}, "modelVersion": request.model, "responseId": identity})
        return
    for piece in pieces:
        if "ping" in piece:
            for _ in range(piece["ping"]):
                yield b": ping\r\n\r\n"
        elif "pause_ms" in piece:
            yield float(piece["pause_ms"])
        elif piece.get("cut"):
            yield None
            return
        elif "raw" in piece:
            yield f"data: {json.dumps(piece['raw'])}\r\n\r\n".encode()
        elif "error" in piece:
            yield f"data: {json.dumps(error_body(piece['error']))}\r\n\r\n".encode()
            return
        elif "finish" in piece:
            finish, message = FINISH.get(piece["finish"], piece["finish"]), piece.get("message")
        elif "refuse" in piece:
            finish, message = "SAFETY", piece["refuse"]
        elif "thinking" in piece:
            state["thoughts"] += token_count(piece["thinking"])
            if config.get("includeThoughts"):
                for each in halves(piece["thinking"], 2):
                    yield chunk([{"text": each, "thought": True}])
        elif "text" in piece:
            for each in halves(piece["text"]):
                state["candidates"] += token_count(each)
                yield chunk([{"text": each}])
        elif "call" in piece:
            call = {"name": piece["call"]["name"], "args": piece["call"].get("input", {})}
            state["candidates"] += token_count(call)
            part = {"functionCall": call}
            if model.is_third:
                call["id"] = piece["call"].get("id") or scope.new_id("", 8, "abcdefghijklmnopqrstuvwxyz0123456789")
                if not signed:
                    # Only the first call of a step has a signature.
                    part["thoughtSignature"] = seal(vendor="gemini", model=request.model, call=call["id"])
                    signed = True
            yield chunk([part])
    if model.is_third and not has_calls and finish is None:
        # The proof of an answer without calls comes with an empty text at the end.
        yield chunk([{"text": "", "thoughtSignature": seal(vendor="gemini", model=request.model, call="")}], finishReason="STOP")
        return
    last = {"finishReason": finish or "STOP"}
    if message:
        last["finishMessage"] = message
    yield chunk([{"text": ""}] if has_calls and finish is None else None, **last)
