"""Chat completions, as OpenAI and its imitators take them: POST [/PERSONALITY]/v1/chat/completions, GET /v1/models."""

import json

from openai.types.chat import completion_create_params

from . import chat_personalities, chat_stream
from .agent import pieces_of
from .core import compact, token_count, without
from .openai_models import MODELS, check_effort, check_length, check_metadata, gpt, refuse, takes_sampling


def call(scope, request):
    person = chat_personalities.named(request.personality)
    body = request.body
    if not isinstance(body, dict):
        refuse("We could not parse the JSON body of your request.")
    request.model = body.get("model") if isinstance(body.get("model"), str) else ""
    if person.needs_key and not (request.headers.get("authorization", "").startswith("Bearer ") or request.headers.get("api-key")):
        person.refuse("Incorrect API key provided.", status=401, code="invalid_api_key")
    kind = "CompletionCreateParamsStreaming" if body.get("stream") else "CompletionCreateParamsNonStreaming"
    person.check_types(getattr(completion_create_params, kind), body)
    if person.name == "openai":
        check_openai(scope, request, body)
    has_images = person.check(scope, request, body)
    check_size(scope, person, request, body)
    messages = body["messages"]
    choice = body.get("tool_choice")
    tools = [(tool["function"]["name"], tool["function"].get("parameters") or {}) for tool in body.get("tools") or [] if tool["type"] == "function"]
    if choice == "none":
        tools = []
    if isinstance(choice, dict) and choice.get("type") == "function":
        tools = [tool for tool in tools if tool[0] == choice["function"]["name"]]
    forced = choice in ("required", "any") or isinstance(choice, dict)
    pieces = pieces_of(scope, "openai_chat", request.model, tools, steps(messages), person.thinks(request, body), forced)
    person.refuse_if_scripted(pieces, has_images)
    if not body.get("stream"):
        person.refuse("This fake answers streams only.", "stream")
    marks, plain = person.marks(body), without(messages, "cache_control")
    texts = [compact(body.get("tools") or []), *(compact(message) for message in plain)]
    tokens = token_count([plain, body.get("tools") or []])
    cache = (person.name, request.model, body.get("prompt_cache_key"))
    if marks is None:
        cached = scope.cached_prefix(cache, "".join(texts), person.cache_minimum, person.cache_step, tokens)
    else:
        cached = scope.marked_prefix(cache, texts, [at + 1 for at in marks], person.cache_minimum, tokens)
    return "text/event-stream", chat_stream.events(scope, request, person, pieces, {"input": tokens, "cached": cached})


def check_openai(scope, request, body):
    """What OpenAI's own models say to chat completions."""
    name, model = request.model, gpt(request.model)
    if model is None:
        refuse(f"The model `{name}` does not exist or you do not have access to it.", "model", "model_not_found", 404)
    effort = body.get("reasoning_effort")
    on_chat = tuple(each for each in model.efforts if not (each == "max" and "none" not in model.efforts))
    check_effort(model, name, effort, "reasoning_effort", on_chat)
    if model.reasons:
        if body.get("max_tokens") is not None:
            refuse("Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.", "max_tokens", "unsupported_parameter")
        if not takes_sampling(model, effort):
            for key in ("temperature", "top_p"):
                if body.get(key) is not None and body[key] != 1:
                    refuse(f"Unsupported value: '{key}' does not support {body[key]} with this model. Only the default (1) value is supported.", key, "unsupported_value")
            for key in ("presence_penalty", "frequency_penalty", "logprobs", "logit_bias", "stop"):
                if body.get(key):
                    refuse(f"Unsupported parameter: '{key}' is not supported with this model.", key, "unsupported_parameter")
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    most = scope.max_output(name, model.max_output)
    if limit is not None and limit > most:
        refuse(f"max_tokens is too large: {limit}. This model supports at most {most} completion tokens, whereas you provided {limit}.", "max_tokens", "invalid_value")
    if body.get("tools"):
        reasons = (effort or model.default_effort) != "none"
        if model.chat_tools == "never" or (model.chat_tools == "effort" and reasons):
            if name.startswith(("gpt-5.2", "gpt-5.4", "gpt-5.5")):
                tail = "Please use /v1/responses instead."
            else:
                tail = "To use function tools, use /v1/responses or set reasoning_effort to 'none'."
            refuse(f"Function tools with reasoning_effort are not supported for {name} in /v1/chat/completions. {tail}", "reasoning_effort")
    elif body.get("parallel_tool_calls") is not None:
        refuse("Invalid value for 'parallel_tool_calls': 'parallel_tool_calls' is only allowed when 'tools' are specified.", "parallel_tool_calls")
    if body.get("prompt_cache_key") is not None:
        check_length(body["prompt_cache_key"], 64, "prompt_cache_key")
    if body.get("stream_options") and not body.get("stream"):
        refuse("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options")
    check_metadata(body.get("metadata"))
    if (body.get("response_format") or {}).get("type") == "json_object" and "json" not in json.dumps(body["messages"]).lower():
        refuse("'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'.", "messages")


def check_size(scope, person, request, body):
    tokens = token_count([body["messages"], body.get("tools") or []])
    answer = body.get("max_completion_tokens") or body.get("max_tokens") or 0
    model = gpt(request.model) if person.name == "openai" else None
    window = scope.window(request.model, model.max_input if model else person.window)
    if tokens + (answer if person.counts_output else 0) > window:
        person.refuse(person.overflow(window, tokens, answer), "messages", "context_length_exceeded")


def steps(messages):
    count = 0
    for at in range(len(messages) - 1, -1, -1):
        message = messages[at]
        # A user's message with images right after results only carries them, with or without a filler before it.
        carries = isinstance(message.get("content"), list) and any(part["type"] != "text" for part in message["content"])
        follows = at and (messages[at - 1]["role"] == "tool" or (at > 1 and messages[at - 2]["role"] == "tool" and messages[at - 1]["role"] == "assistant"))
        if message["role"] == "user" and not (carries and follows):
            break
        count += message["role"] == "assistant" and bool(message.get("tool_calls"))
    return count


def models(scope, request):
    person = chat_personalities.named(request.personality)
    names = list(MODELS) if person.name == "openai" else person.models
    data = [{"id": name, "object": "model", "created": 1763400000, "owned_by": person.name, **person.listed(scope, name)} for name in names]
    if request.model:
        for each in data:
            if each["id"] == request.model:
                return "", each
        refuse(f"The model '{request.model}' does not exist", "model", "model_not_found", 404)
    return "", {"object": "list", "data": data}
