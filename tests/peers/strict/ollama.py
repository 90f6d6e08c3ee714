"""Ollama: POST /api/chat and /api/show, GET /api/tags. Requests are read as Go's JSON reader reads them."""

import dataclasses
import json

import ollama
import pydantic

from . import media
from .agent import pieces_of, spoken_tokens
from .core import Refused, halves, token_count


@dataclasses.dataclass(frozen=True)
class Local:
    capabilities: tuple
    family: str
    context: int


MODELS = {
    "qwen3": Local(("completion", "tools", "thinking"), "qwen3", 40_960),
    "qwen3-vl": Local(("completion", "tools", "thinking", "vision"), "qwen3vl", 262_144),
    "gpt-oss:20b": Local(("completion", "tools", "thinking"), "gptoss", 131_072),
    "gemma3": Local(("completion", "vision"), "gemma3", 131_072),
    "llama3.2": Local(("completion", "tools"), "llama", 131_072),
}
INTEGERS = {"num_ctx", "num_batch", "num_gpu", "main_gpu", "num_thread", "draft_num_predict", "num_keep", "seed", "num_predict", "top_k", "repeat_last_n"}
FLOATS = {"top_p", "min_p", "typical_p", "temperature", "repeat_penalty", "presence_penalty", "frequency_penalty"}
DEFAULT_CONTEXT = 4096
GO_NAMES = {bool: "bool", str: "string", int: "number", float: "number", list: "array", dict: "object"}


def refuse(message, status=400):
    raise Refused(status, {"error": message})


def find(name):
    return MODELS.get(name.removesuffix(":latest"))


def mismatch(value, field, kind):
    refuse(f"json: cannot unmarshal {GO_NAMES.get(type(value), 'null')} into Go struct field {field} of type {kind}")


def need(value, kinds, field, kind):
    if value is not None and (not isinstance(value, kinds) or isinstance(value, bool) and bool not in (kinds if isinstance(kinds, tuple) else (kinds,))):
        mismatch(value, field, kind)


def call(scope, request):
    body = request.body
    if body is None:
        refuse("missing request body")
    if not isinstance(body, dict):
        refuse("invalid character in request body")
    need(body.get("model"), str, "ChatRequest.model", "string")
    request.model = body.get("model") or ""
    if not request.model:
        refuse("model is required")
    has_images = check_messages(body)
    check_tools(body)
    check_rest(body)
    check_sdk(body)
    model = find(request.model)
    if model is None:
        refuse(f"model '{request.model}' not found", 404)
    think = body.get("think")
    if body.get("tools") and "tools" not in model.capabilities:
        refuse(f"registry.ollama.ai/library/{request.model}:latest does not support tools" if ":" not in request.model else f"registry.ollama.ai/library/{request.model} does not support tools")
    if think and "thinking" not in model.capabilities:
        refuse(f'"{request.model}" does not support thinking')
    if has_images and "vision" not in model.capabilities:
        refuse("this model is missing data required for image input", 500)
    check_options(body)
    used = check_context(scope, request, model)
    thinks = "thinking" in model.capabilities and think is not False
    tools = [(tool["function"]["name"], tool["function"].get("parameters") or {}) for tool in body.get("tools") or []]
    pieces = pieces_of(scope, "ollama", request.model, tools, steps(body["messages"]), thinks)
    if pieces and "error" in pieces[0]:
        refuse(pieces[0]["error"].get("message", "an error was encountered while running the model"), pieces[0]["error"].get("status", 500))
    if has_images and any(piece.get("image_refused") for piece in pieces):
        refuse("Failed to load image or audio file", 500)
    if body.get("stream") is False:
        refuse("this fake answers streams only")
    return "application/x-ndjson", lines(scope, request, pieces, used)


def check_messages(body):
    messages = body.get("messages")
    need(messages, list, "ChatRequest.messages", "[]api.Message")
    has_images, made = False, []
    for message in messages or []:
        need(message, dict, "ChatRequest.messages", "api.Message")
        for key in ("role", "content", "thinking", "tool_name", "tool_call_id"):
            need(message.get(key), str, f"ChatRequest.messages.{key}", "string")
        if message.get("role", "").lower() not in ("system", "user", "assistant", "tool"):
            refuse(f'invalid role "{message.get("role")}"')
        need(message.get("images"), list, "ChatRequest.messages.images", "[]api.ImageData")
        for image in message.get("images") or []:
            has_images = True
            need(image, str, "ChatRequest.messages.images", "[]uint8")
            data = media.decode(image)
            if data is None:
                refuse("illegal base64 data at input byte 4")
            if media.kind(data) not in ("image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp"):
                refuse("Failed to load image or audio file", 500)
        need(message.get("tool_calls"), list, "ChatRequest.messages.tool_calls", "[]api.ToolCall")
        for each in message.get("tool_calls") or []:
            function = each.get("function")
            need(each.get("id"), str, "ChatRequest.messages.tool_calls.id", "string")
            need(function, dict, "ChatRequest.messages.tool_calls.function", "api.ToolCallFunction")
            if not function or not function.get("name"):
                refuse("tool call without a function name")
            need(function.get("index"), int, "ChatRequest.messages.tool_calls.function.index", "int")
            if function.get("arguments") is not None and not isinstance(function["arguments"], dict):
                refuse(f"json: cannot unmarshal {GO_NAMES[type(function['arguments'])]} into Go value of type map[string]interface {{}}")
        # Ollama takes such a result, but its templates cannot tell which call it belongs to.
        if message.get("role") == "tool":
            if not (message.get("tool_name") or message.get("tool_call_id")):
                refuse("a tool message names neither its tool nor its call")
            if message.get("tool_call_id") and message["tool_call_id"] not in made:
                refuse(f"tool_call_id {message['tool_call_id']!r} names no earlier call")
        made += [each.get("id") for each in message.get("tool_calls") or []]
    return has_images


def check_tools(body):
    need(body.get("tools"), list, "ChatRequest.tools", "api.Tools")
    for tool in body.get("tools") or []:
        function = tool.get("function") if isinstance(tool, dict) else None
        if not isinstance(function, dict):
            mismatch(tool, "ChatRequest.tools", "api.Tool")
        for key in ("name", "description"):
            need(function.get(key), str, f"ChatRequest.tools.function.{key}", "string")
        parameters = function.get("parameters")
        where = "ChatRequest.tools.function.parameters"
        need(parameters, dict, where, "api.ToolFunctionParameters")
        if parameters:
            need(parameters.get("type"), str, f"{where}.type", "string")
            check_names(parameters.get("required"), f"{where}.required")
            check_properties(parameters.get("properties"), f"{where}.properties")


def check_names(value, field):
    need(value, list, field, "[]string")
    for each in value or []:
        need(each, str, field, "string")


def check_properties(properties, field):
    need(properties, dict, field, "map[string]api.ToolProperty")
    for each in (properties or {}).values():
        check_property(each, field)


def check_property(value, field):
    if not isinstance(value, dict):
        refuse(f"json: cannot unmarshal {GO_NAMES.get(type(value), 'null')} into Go value of type api.ToolProperty")
    kind = value.get("type")
    if kind is not None and not isinstance(kind, str) and not (isinstance(kind, list) and all(isinstance(each, str) for each in kind)):
        mismatch(kind, f"{field}.type", "api.PropertyType")
    need(value.get("description"), str, f"{field}.description", "string")
    need(value.get("enum"), list, f"{field}.enum", "[]interface {}")
    check_names(value.get("required"), f"{field}.required")
    check_properties(value.get("properties"), f"{field}.properties")
    need(value.get("anyOf"), list, f"{field}.anyOf", "[]api.ToolProperty")
    for each in value.get("anyOf") or []:
        check_property(each, field)


def check_rest(body):
    think = body.get("think")
    if think is not None and not isinstance(think, bool):
        if not isinstance(think, str):
            refuse("think must be a boolean or string (\"high\", \"medium\", \"low\", \"max\", true, or false)")
        if think not in ("low", "medium", "high", "max"):
            refuse(f'invalid think value: "{think}" (must be "high", "medium", "low", "max", true, or false)')
    for key in ("stream", "truncate", "shift", "logprobs"):
        need(body.get(key), bool, f"ChatRequest.{key}", "bool")
    format = body.get("format")
    if format is not None and format != "" and format != "json" and not isinstance(format, dict):
        refuse(f"invalid format: {json.dumps(format)}; expected \"json\" or a valid JSON Schema object", 500)
    need(body.get("options"), dict, "ChatRequest.options", "map[string]interface {}")


def check_sdk(body):
    """The SDK's types must be able to say the same, without what they lag behind with."""
    try:
        ollama._types.ChatRequest.model_validate({key: value for key, value in body.items() if key not in ("think", "truncate", "shift")})
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        refuse(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")


def check_options(body):
    for key, value in (body.get("options") or {}).items():
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if value is None:
            continue
        if key in INTEGERS and not number:
            refuse(f'option "{key}" must be of type integer', 500)
        if key in FLOATS and not number:
            refuse(f'option "{key}" must be of type float32', 500)
        if key == "use_mmap" and not isinstance(value, bool):
            refuse(f'option "{key}" must be of type boolean', 500)
        if key == "stop" and not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
            refuse(f'option "{key}" must be of type array', 500)
        if key not in INTEGERS | FLOATS | {"use_mmap", "stop"}:
            refuse(f'option "{key}" is unknown to this fake: Ollama would ignore it', 500)


def check_context(scope, request, model):
    body = request.body
    tokens = token_count([body.get("messages") or [], body.get("tools") or []])
    window = min((body.get("options") or {}).get("num_ctx") or scope.window(request.model, DEFAULT_CONTEXT), model.context)
    if tokens <= window:
        return tokens
    if body.get("truncate") is False:
        refuse(f"request ({tokens} tokens) exceeds the available context size ({window} tokens), try increasing it")
    if body.get("shift") is False:
        refuse("the prompt is longer than the context length currently available to the model; shorten the prompt, adjust the context length in settings, or use a model with a longer context length")
    request.warn(f"Ollama dropped the oldest messages silently: {tokens} tokens do not fit into {window}")
    return window


def steps(messages):
    count = 0
    for at in range(len(messages) - 1, -1, -1):
        role = messages[at]["role"]
        # A user's message right after results only carries their images.
        if role == "user" and not (at and messages[at - 1]["role"] == "tool" and messages[at].get("images")):
            break
        count += role == "assistant" and bool(messages[at].get("tool_calls"))
    return count


def lines(scope, request, pieces, used):
    def line(done=False, message=None, **rest):
        chunk = {"model": request.model, "created_at": "2026-11-17T12:00:00.000000Z", "message": {"role": "assistant", "content": "", **(message or {})}, "done": done, **rest}
        ollama.ChatResponse.model_validate(chunk)
        return json.dumps(chunk).encode() + b"\n"

    finish, scripted = "stop", {}
    for piece in pieces:
        if "pause_ms" in piece:
            yield float(piece["pause_ms"])
        elif "ping" in piece:
            yield line()
        elif piece.get("cut"):
            yield None
            return
        elif "raw" in piece:
            yield json.dumps(piece["raw"]).encode() + b"\n"
        elif "error" in piece:
            yield json.dumps({"error": piece["error"].get("message", "an error was encountered while running the model")}).encode() + b"\n"
            return
        elif "finish" in piece:
            finish = "length" if piece["finish"] == "max_tokens" else piece["finish"]
        elif "usage" in piece:
            scripted = piece["usage"]
        elif "thinking" in piece:
            for each in halves(piece["thinking"]):
                yield line(message={"thinking": each})
        elif "text" in piece or "refuse" in piece:
            for each in halves(piece.get("text") or piece.get("refuse")):
                yield line(message={"content": each})
        elif "call" in piece:
            identity = piece["call"].get("id") or scope.new_id("call_", 8, "abcdefghijklmnopqrstuvwxyz0123456789")
            # Ollama gives index 0 to calls that come in chunks of their own.
            function = {"index": 0, "name": piece["call"]["name"], "arguments": piece["call"].get("input", {})}
            yield line(message={"tool_calls": [{"id": identity, "function": function}]})
    counts = {"prompt_eval_count": used, "eval_count": spoken_tokens(pieces)[0], **scripted}
    yield line(True, done_reason=finish, total_duration=5_000_000, load_duration=1_000_000, prompt_eval_duration=2_000_000, eval_duration=2_000_000, **counts)


def show(scope, request):
    body = request.body if isinstance(request.body, dict) else {}
    request.model = body.get("model") or body.get("name") or ""
    model = find(request.model)
    if model is None:
        refuse(f"model '{request.model}' not found", 404)
    context = scope.window(request.model + "/length", model.context)
    shown = {
        "license": "", "modelfile": "", "parameters": "stop                           \"<|end|>\"", "template": "{{ .Prompt }}", "details": details(model),
        "model_info": {"general.architecture": model.family, f"{model.family}.context_length": context}, "capabilities": list(model.capabilities),
        "modified_at": "2026-11-01T12:00:00Z",
    }
    ollama.ShowResponse.model_validate(shown)
    return "", shown


def details(model):
    return {"parent_model": "", "format": "gguf", "family": model.family, "families": [model.family], "parameter_size": "8B", "quantization_level": "Q4_K_M"}


def tags(scope, request):
    listed = {
        "models": [
            {"name": name if ":" in name else f"{name}:latest", "model": name if ":" in name else f"{name}:latest", "modified_at": "2026-11-01T12:00:00Z", "size": 5_000_000_000, "digest": "0" * 64, "details": details(model), "capabilities": list(model.capabilities)}
            for name, model in MODELS.items()
        ]
    }
    ollama.ListResponse.model_validate(listed)
    return "", listed
