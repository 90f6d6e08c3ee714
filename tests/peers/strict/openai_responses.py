"""OpenAI: POST /v1/responses, answered as a stream."""

from openai.types.responses import response_create_params

from . import openai_stream
from .agent import pieces_of
from .core import Refused, compact, token_count, unseal, without
from .openai_models import check_effort, check_image, check_length, check_metadata, check_tool, gpt, refuse, report, takes_sampling
from .walker import Walker

# The API takes these as optional although the SDK's types do not.
WALKER = Walker(
    optional={
        "ResponseOutputMessageParam": {"id", "status", "type"},
        "ResponseOutputTextParam": {"annotations"},
        "ResponseInputImageParam": {"detail"},
        "FunctionToolParam": {"parameters", "strict"},
        "ResponseReasoningItemParam": {"id"},
    }
)
PREFIXES = {"reasoning": "rs", "message": "msg", "function_call": "fc"}


def call(scope, request):
    body = request.body
    if not (request.headers.get("authorization", "").startswith("Bearer ") or request.headers.get("api-key")):
        refuse("You didn't provide an API key. You need to provide your API key in an Authorization header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).", status=401)
    if not isinstance(body, dict):
        refuse("We could not parse the JSON body of your request.")
    request.model = body.get("model") if isinstance(body.get("model"), str) else ""
    kind = "ResponseCreateParamsStreaming" if body.get("stream") else "ResponseCreateParamsNonStreaming"
    if faults := WALKER.check(getattr(response_create_params, kind), body):
        report(faults[0])
    model = gpt(request.model)
    if model is None:
        refuse(f"The model `{request.model}` does not exist or you do not have access to it.", "model", "model_not_found", 404)
    if body.get("store") is not False:
        request.warn("store is not false: the answer is kept by the vendor")
    check_parameters(scope, body, request.model, model)
    check_tools(body)
    items = body.get("input")
    items = [{"type": "message", "role": "user", "content": items}] if isinstance(items, str) else items or []
    if not items:
        refuse("One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation_id' must be provided.", "input", "missing_required_parameter")
    has_images = check_items(scope, request, items)
    check_size(scope, body, items, request.model, model)
    effort = (body.get("reasoning") or {}).get("effort") or model.default_effort
    choice = body.get("tool_choice")
    tools = [(tool["name"], tool.get("parameters") or {}) for tool in body.get("tools") or [] if tool["type"] == "function"]
    if choice == "none":
        tools = []
    if isinstance(choice, dict) and choice["type"] == "function":
        tools = [tool for tool in tools if tool[0] == choice["name"]]
    forced = choice == "required" or isinstance(choice, dict)
    pieces = pieces_of(scope, "openai_responses", request.model, tools, steps(items), model.reasons and effort != "none", forced)
    openai_stream.refuse_if_scripted(pieces, has_images)
    if not body.get("stream"):
        refuse("This fake answers streams only.", "stream")
    usage = use(scope, body, items, request.model)
    return "text/event-stream; charset=utf-8", openai_stream.events(scope, request, pieces, usage)


def check_parameters(scope, body, name, model):
    reasoning = body.get("reasoning") or {}
    effort = reasoning.get("effort")
    if reasoning and not model.reasons:
        key = next(iter(reasoning))
        refuse(f"Unsupported parameter: 'reasoning.{key}' is not supported with this model.", f"reasoning.{key}", "unsupported_parameter")
    check_effort(model, name, effort, "reasoning.effort")
    if reasoning.get("mode") == "pro" and not model.pro_mode:
        refuse("Unsupported parameter: 'reasoning.mode' is not supported with this model.", "reasoning.mode", "unsupported_parameter")
    if not takes_sampling(model, effort):
        for key in ("temperature", "top_p", "top_logprobs"):
            if body.get(key) is not None:
                refuse(f"Unsupported parameter: '{key}' is not supported with this model.", key)
    for key, most in (("temperature", 2), ("top_p", 1)):
        value = body.get(key)
        if value is not None and value > most:
            refuse(f"Invalid '{key}': decimal above maximum value. Expected a value <= {most}, but got {value} instead.", key, "decimal_above_max_value")
    limit = body.get("max_output_tokens")
    if limit is not None:
        if limit < 16:
            refuse(f"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got {limit} instead.", "max_output_tokens", "integer_below_min_value")
        most = scope.max_output(name, model.max_output)
        if limit > most:
            refuse(f"Invalid 'max_output_tokens': integer above maximum value. Expected a value <= {most}, but got {limit} instead.", "max_output_tokens", "integer_above_max_value")
    if "reasoning.encrypted_content" in (body.get("include") or []) and not model.reasons:
        refuse("Encrypted content is not supported with this model.", "include")
    if body.get("prompt_cache_key") is not None:
        check_length(body["prompt_cache_key"], 64, "prompt_cache_key")
    if body.get("prompt_cache_options") and not model.cache_options:
        refuse("Unsupported parameter: 'prompt_cache_options' is not supported with this model.", "prompt_cache_options", "unsupported_parameter")
    if body.get("safety_identifier") is not None:
        check_length(body["safety_identifier"], 64, "safety_identifier")
    check_metadata(body.get("metadata"))
    if body.get("stream_options") and not body.get("stream"):
        refuse("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options")
    format = (body.get("text") or {}).get("format") or {}
    if format.get("type") == "json_schema":
        check_length(format["name"], 64, "text.format.name")
        if format["schema"].get("type") != "object":
            refuse(f"Invalid schema for response_format '{format['name']}': schema must be a JSON Schema of 'type: \"object\"'.", "text.format.schema", "invalid_json_schema")
    if format.get("type") == "json_object" and "json" not in compact([body.get("input"), body.get("instructions")]).lower():
        refuse("Response input messages must contain the word 'json' in some form to use 'text.format' of type 'json_object'.", "input")


def check_tools(body):
    tools, choice = body.get("tools") or [], body.get("tool_choice")
    if len(tools) > 128:
        refuse(f"Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length {len(tools)} instead.", "tools", "array_above_max_length")
    names = set()
    for at, tool in enumerate(tools):
        if tool["type"] != "function":
            continue
        # Without the key the API tries strict mode and falls back.
        check_tool(tool["name"], tool.get("parameters"), bool(tool.get("strict")), f"tools[{at}]", 128)
        if tool["name"] in names:
            refuse(f"Duplicate tool name: '{tool['name']}'.", "tools", "invalid_value")
        names.add(tool["name"])
    if isinstance(choice, dict) and choice["type"] == "function" and choice["name"] not in names:
        refuse("Tool choice 'function' not found in 'tools' parameter.", "tool_choice")
    if choice == "required" and not tools:
        refuse("Tool choice 'required' must be specified with 'tools' parameter.", "tool_choice")


def kind_of(item):
    return item.get("type") or "message"


def check_items(scope, request, items):
    has_images, ids = False, set()
    for at, item in enumerate(items):
        where, kind = f"input[{at}]", kind_of(item)
        if kind in PREFIXES and item.get("id") is not None:
            identity = item["id"]
            check_length(identity, 64, f"{where}.id")
            if not identity.startswith(PREFIXES[kind] + "_"):
                refuse(f"Invalid '{where}.id': '{identity}'. Expected an ID that begins with '{PREFIXES[kind]}'.", f"{where}.id", "invalid_id_prefix")
            if identity in ids:
                refuse(f"Duplicate item found with id {identity}. Remove duplicate items from your input and try again.", "input")
            ids.add(identity)
        if kind == "message":
            has_images |= check_message(item, where)
        if kind in ("function_call", "function_call_output") and item.get("call_id") is not None:
            check_length(item["call_id"], 64, f"{where}.call_id")
        if kind == "function_call":
            check_length(item["name"], 128, f"{where}.name")
        if kind == "function_call_output" and isinstance(item["output"], list):
            has_images |= check_parts(item["output"], f"{where}.output")
    check_pairs(items)
    check_reasoning(scope, request, items, request.model)
    return has_images


def check_message(item, where):
    content = item["content"]
    if isinstance(content, str):
        return False
    if item["role"] == "assistant":
        for part, each in enumerate(content):
            if each["type"] not in ("output_text", "refusal"):
                refuse(f"Invalid value: '{each['type']}'. Supported values are: 'output_text' and 'refusal'.", f"{where}.content[{part}]", "invalid_value")
        return False
    return check_parts(content, f"{where}.content")


def check_parts(parts, where):
    has_images = False
    for at, part in enumerate(parts):
        if part["type"] == "input_image" and part.get("image_url"):
            has_images = True
            check_image(part["image_url"], f"{where}[{at}].image_url")
        if part["type"] == "input_file":
            data = part.get("file_data")
            if data is not None and not data.startswith("data:"):
                refuse(f"Invalid '{where}[{at}].file_data'. Expected a base64-encoded data URL with a MIME type (e.g. 'data:application/pdf;base64,aW1nIGJ5dGVzIGhlcmU='), but got a value without the 'data:' prefix.", f"{where}[{at}].file_data", "invalid_value")
            if data is not None and not part.get("filename"):
                refuse(f"Missing required parameter: '{where}[{at}].filename'.", f"{where}[{at}].filename", "missing_required_parameter")
    return has_images


def check_pairs(items):
    calls = [item["call_id"] for item in items if kind_of(item) == "function_call"]
    outputs = [item.get("call_id") for item in items if kind_of(item) == "function_call_output"]
    for call in calls:
        if call not in outputs:
            refuse(f"No tool output found for function call {call}.", "input")
    seen = set()
    for item in items:
        if kind_of(item) == "function_call":
            seen.add(item["call_id"])
        if kind_of(item) == "function_call_output" and item.get("call_id") not in seen:
            refuse(f"No tool call found for function call output with call_id {item.get('call_id')}.", "input")
    for values, what in ((calls, "function call"), (outputs, "function call output")):
        if len(set(values)) != len(values):
            refuse(f"Duplicate {what} with the same call_id in the input.", "input")


def check_reasoning(scope, request, items, model):
    previous = None
    for at, item in enumerate(items):
        if kind_of(item) == "reasoning":
            name = item.get("id") or "rs_"
            sealed = item.get("encrypted_content")
            if not sealed:
                if not item.get("id"):
                    refuse(f"Missing required parameter: 'input[{at}].encrypted_content'.", f"input[{at}].encrypted_content", "missing_required_parameter")
                refuse(f"Item with id '{name}' not found. Items are not persisted when `store` is set to false. Try again with `store` set to true, or remove this item from your input.", "input", None, 404)
            content = unseal(sealed)
            if content is None or content.get("vendor") != "openai" or content["model"] != model or (item.get("id") and content["id"] != item["id"]):
                refuse(f"The encrypted content {sealed[:4]}...{sealed[-4:]} for item {name} could not be verified. Reason: Encrypted content could not be decrypted or parsed.", None, "invalid_encrypted_content")
            following = items[at + 1] if at + 1 < len(items) else None
            own = following is not None and (kind_of(following) in ("function_call", "reasoning") or (kind_of(following) == "message" and following.get("role") == "assistant"))
            if not own:
                refuse(f"Item '{name}' of type 'reasoning' was provided without its required following item.", "input")
        if kind_of(item) in ("message", "function_call") and item.get("id"):
            wanted = scope.issued.get(item["id"])
            if wanted and not (previous is not None and kind_of(previous) == "reasoning"):
                refuse(f"Item '{item['id']}' of type '{kind_of(item)}' was provided without its required 'reasoning' item: '{wanted}'.", "input")
        previous = item
    warn_of_lost_reasoning(request, items)


def warn_of_lost_reasoning(request, items):
    """The running turn's reasoning should come back; the API takes a turn without it, but the model thinks anew."""
    last = max((at for at in range(len(items)) if is_users_own(items, at)), default=-1)
    turn = items[last + 1 :]
    if any(kind_of(item) == "function_call" for item in turn) and not any(kind_of(item) == "reasoning" for item in turn):
        effort = (request.body.get("reasoning") or {}).get("effort") or gpt(request.model).default_effort
        if gpt(request.model).reasons and effort != "none":
            request.warn("the reasoning of the running turn was left out")


def is_users_own(items, at):
    """Whether an item is a message that the user wrote. One with an image right after tool results only carries them."""
    item = items[at]
    if kind_of(item) != "message" or item.get("role") != "user":
        return False
    follows_results = at and kind_of(items[at - 1]) == "function_call_output"
    shows = isinstance(item["content"], list) and any(part["type"] != "input_text" for part in item["content"])
    return not (follows_results and shows)


def steps(items):
    """Answers with calls since the last message of the user's own: runs of results."""
    last = max((at for at in range(len(items)) if is_users_own(items, at)), default=-1)
    kinds = [kind_of(item) for item in items[last:]] if last >= 0 else [kind_of(item) for item in items]
    return sum(kind == "function_call_output" and kinds[at - 1] != kind for at, kind in enumerate(kinds) if at)


def check_size(scope, body, items, name, model):
    tokens = token_count([body.get("instructions") or "", body.get("tools") or [], items])
    most = scope.window(name, model.max_input)
    if tokens > most and body.get("truncation") != "auto":
        message = "Your input exceeds the context window of this model. Please adjust your input and try again."
        error = {"type": "invalid_request_error", "code": "context_length_exceeded", "message": message, "param": "input"}
        stream = ("text/event-stream; charset=utf-8", openai_stream.overflow(scope, body, error)) if body.get("stream") else None
        raise Refused(400, {"error": error}, stream=stream)


def use(scope, body, items, model):
    plain = without(items, "prompt_cache_breakpoint")
    text = compact([body.get("tools") or [], body.get("instructions") or ""]) + "".join(compact(item) for item in plain)
    tokens = token_count([body.get("instructions") or "", body.get("tools") or [], items])
    cached = scope.cached_prefix(("openai", model, body.get("prompt_cache_key")), text, 1024, 128, tokens)
    return {"input": tokens, "cached": cached}
