"""Gemini: POST /v1beta/models/{model}:streamGenerateContent and GET /v1beta/models."""

import dataclasses
import json
import re
import typing

import pydantic
from google.genai import types

from . import gemini_history, gemini_schema, gemini_stream
from .agent import pieces_of
from .core import Refused, compact, token_count

LEVELS = ("MINIMAL", "LOW", "MEDIUM", "HIGH")


@dataclasses.dataclass(frozen=True)
class GeminiModel:
    levels: tuple = LEVELS
    # The range of `thinkingBudget`, or nothing where it is refused.
    budget: tuple | None = (0, 32768)
    window: int = 1_048_576
    max_output: int = 65_536
    # Signatures, ids of calls, images in function responses.
    is_third: bool = True
    trailing_model_turn: bool = False
    ignores_sampling: bool = True
    cache_minimum: int = 4096


MODELS = {
    "gemini-4-argon": GeminiModel(LEVELS[1:], None, max_output=1_048_576, cache_minimum=6144),
    "gemini-3.8-flash": GeminiModel(LEVELS[1:]),
    "gemini-3.7-flash": GeminiModel(LEVELS[1:]),
    "gemini-3.6-flash": GeminiModel(),
    "gemini-3.5-flash": GeminiModel(ignores_sampling=False),
    "gemini-3.5-flash-lite": GeminiModel(),
    "gemini-3.1-pro-preview": GeminiModel(LEVELS[1:], trailing_model_turn=True, ignores_sampling=False),
    "gemini-3-flash-preview": GeminiModel(trailing_model_turn=True, ignores_sampling=False),
    "gemini-2.5-pro": GeminiModel((), (128, 32768), is_third=False, trailing_model_turn=True, ignores_sampling=False, cache_minimum=2048),
    "gemini-2.5-flash": GeminiModel((), (0, 24576), is_third=False, trailing_model_turn=True, ignores_sampling=False, cache_minimum=1024),
    "gemini-2.5-flash-lite": GeminiModel((), (0, 24576), is_third=False, trailing_model_turn=True, ignores_sampling=False, cache_minimum=1024),
}
FIELDS = {
    "contents": list[types.Content], "systemInstruction": types.Content, "tools": list[types.Tool], "toolConfig": types.ToolConfig,
    "generationConfig": types.GenerationConfig, "safetySettings": list[types.SafetySetting], "cachedContent": str, "labels": dict[str, str],
    "serviceTier": typing.Literal["unspecified", "flex", "standard", "priority"], "store": bool, "continuationToken": str,
}
ADAPTERS = {name: pydantic.TypeAdapter(kind) for name, kind in FIELDS.items()}
# Values that are not messages of the API.
OPAQUE = ("args", "response", "parametersJsonSchema", "responseJsonSchema", "labels", "partMetadata")
VERTEX_ONLY = ("routingConfig", "modelSelectionConfig", "audioTimestamp")
TOOL_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}")


def refuse(message, status=400, name="INVALID_ARGUMENT", details=None):
    error = {"code": status, "message": message, "status": name}
    raise Refused(status, {"error": {**error, "details": details} if details else error})


def snake(name):
    return re.sub(r"([A-Z])", lambda found: "_" + found[1].lower(), name)


def camel(name):
    return re.sub(r"_([a-z])", lambda found: found[1].upper(), name)


def path_text(path):
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{snake(step)}" if text else snake(step)
    return text


def unknown(name, path):
    where = path_text(path)
    text = f'Invalid JSON payload received. Unknown name "{name}"' + (f" at '{where}'" if where else "") + ": Cannot find field."
    refuse(text, details=[{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": [{"field": where, "description": text}]}])


def one_spelling(value):
    """Names in camel case, which proto JSON takes as well as snake case. What people name themselves stays as it is."""
    if isinstance(value, list):
        return [one_spelling(each) for each in value]
    if not isinstance(value, dict):
        return value
    result = {}
    for name, each in value.items():
        key = camel(name)
        if key in ("properties", "defs") and isinstance(each, dict):
            result[key] = {inner: one_spelling(item) for inner, item in each.items()}
        else:
            result[key] = each if key in OPAQUE else one_spelling(each)
    return result


def check_types(body):
    for name, value in body.items():
        key = camel(name)
        if key not in ADAPTERS:
            unknown(name, ())
        try:
            ADAPTERS[key].validate_json(json.dumps(value))
        except pydantic.ValidationError as error:
            report(key, error)
    config = body.get("generationConfig") or {}
    for name in VERTEX_ONLY:
        if name in config:
            unknown(name, ("generation_config",))


def report(key, error):
    faults = error.errors()
    extra = [fault for fault in faults if fault["type"] == "extra_forbidden"]
    fault = (extra or faults)[0]
    # Names of union members are no steps of the path.
    path = [step for step in fault["loc"] if isinstance(step, int) or re.fullmatch(r"[a-z$][\w$-]*", step)]
    if extra:
        unknown(path[-1], (key, *path[:-1]))
    if isinstance(fault.get("input"), list):
        refuse(f"Invalid value at '{path_text((key, *path))}': Proto field is not repeating, cannot start list.")
    refuse(f"Invalid value at '{path_text((key, *path))}' ({fault['msg']}), {compact(fault.get('input'))[:200]}")


def call(scope, request):
    body, headers = request.body, request.headers
    if not (headers.get("x-goog-api-key") or request.query.get("key") or headers.get("authorization")):
        refuse("Method doesn't allow unregistered callers (callers without established identity). Please use API Key or other form of API consumer identity to call this API.", 403, "PERMISSION_DENIED")
    if not isinstance(body, dict):
        refuse("Invalid JSON payload received. Unexpected token.")
    model = MODELS.get(request.model)
    if model is None:
        refuse(f"models/{request.model} is not found for API version v1beta, or is not supported for generateContent. Call ListModels to see the list of available models and their supported methods.", 404, "NOT_FOUND")
    body = one_spelling(body)
    gemini_schema.check_declarations(body, refuse, unknown)
    check_types(body)
    check_config(scope, body, request.model, model)
    declared = check_tools(body, model)
    history = gemini_history.check(request, body, model)
    tokens = token_count([body.get("systemInstruction") or {}, body.get("tools") or [], body["contents"]])
    window = scope.window(request.model, model.window)
    if tokens > window:
        refuse(f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({window}).")
    config = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    mode = (config.get("mode") or "AUTO").upper()
    names = config.get("allowedFunctionNames")
    tools = [] if mode == "NONE" else [tool for tool in declared if not names or tool[0] in names]
    thinking = (body.get("generationConfig") or {}).get("thinkingConfig") or {}
    thinks = thinking.get("thinkingBudget") != 0
    pieces = pieces_of(scope, "gemini", request.model, tools, history.steps, thinks, mode == "ANY")
    gemini_stream.refuse_if_scripted(pieces, history.has_images)
    text = compact([body.get("systemInstruction"), body.get("tools")]) + "".join(compact(content) for content in body["contents"])
    cached = scope.cached_prefix(("gemini", request.model), text, model.cache_minimum, 1, tokens)
    if request.query.get("alt") != "sse" or ":generateContent" in request.path:
        refuse("This fake answers streamGenerateContent with alt=sse only.")
    return "text/event-stream", gemini_stream.events(scope, request, body, model, pieces, {"prompt": tokens, "cached": cached})


def check_config(scope, body, name, model):
    config = body.get("generationConfig") or {}
    thinking = config.get("thinkingConfig") or {}
    level, budget = thinking.get("thinkingLevel"), thinking.get("thinkingBudget")
    if level is not None and budget is not None:
        refuse("You can only set only one of thinking budget and thinking level.")
    if level is not None:
        if not model.levels:
            refuse("Thinking level is not supported for this model.")
        if level.upper() not in model.levels:
            refuse(f"Thinking level {level.upper()} is not supported for this model. Supported levels: {', '.join(model.levels)}.")
    if budget is not None:
        if model.budget is None:
            refuse("Thinking budget is not supported for this model. Use thinking level instead.")
        low, high = model.budget
        if budget != -1 and not low <= budget <= high:
            refuse(f"The thinking budget {budget} is invalid. Please choose a value between {low} and {high}.")
    most = scope.max_output(name, model.max_output)
    limit = config.get("maxOutputTokens")
    if limit is not None and not 1 <= limit <= most:
        refuse(f"Unable to submit request because it has a maxOutputTokens value of {limit} but the supported range is from 1 (inclusive) to {most + 1} (exclusive). Update the value and try again.")
    if config.get("temperature") is not None and not 0 <= config["temperature"] <= 2:
        refuse(f"Unable to submit request because it has a temperature value of {config['temperature']} but the supported range is from 0 (inclusive) to 2 (inclusive). Update the value and try again.")
    for key in ("presencePenalty", "frequencyPenalty"):
        if config.get(key):
            refuse(f"Penalty is not enabled for models/{name}")
    if config.get("candidateCount", 1) != 1:
        refuse("Multiple candidates is not enabled for this model")
    if len(config.get("stopSequences") or []) > 5:
        refuse("The maximum number of stop sequences is 5.")
    schemas = [key for key in ("responseSchema", "responseJsonSchema") if config.get(key) is not None]
    if len(schemas) > 1:
        refuse("Only one of response_schema and response_json_schema can be set.")
    if schemas and config.get("responseMimeType") != "application/json":
        refuse("Response schema is only supported with response mime type 'application/json'.")
    if config.get("responseMimeType") == "application/json" and body.get("tools") and not model.is_third:
        refuse("Function calling with a response mime type: 'application/json' is unsupported")
    if body.get("cachedContent") and (body.get("tools") or body.get("systemInstruction") or body.get("toolConfig")):
        refuse("Tool config, tools and system instruction should not be set in the request when using cached content.")


def check_tools(body, model):
    declared = []
    for at, tool in enumerate(body.get("tools") or []):
        declarations = tool.get("functionDeclarations")
        for index, each in enumerate(declarations or []):
            where = f"GenerateContentRequest.tools[{at}].function_declarations[{index}]"
            if not each.get("name") or not TOOL_NAME.fullmatch(each["name"]):
                refuse(f"{where}.name: Invalid function name. Must start with a letter or an underscore. Must be alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a maximum length of 128.")
            if each.get("parameters") is not None and each.get("parametersJsonSchema") is not None:
                refuse(f"{where}: parameters and parameters_json_schema are mutually exclusive.")
            if each["name"] in [name for name, _ in declared]:
                refuse(f"Duplicate function declaration found: {each['name']}")
            declared.append((each["name"], each.get("parameters") or each.get("parametersJsonSchema") or {}))
    if len(declared) > 512:
        refuse("The number of function declarations exceeds the limit of 512.")
    config = (body.get("toolConfig") or {}).get("functionCallingConfig")
    if config is not None:
        if not declared:
            refuse("Function calling config is set without function_declarations.")
        mode, names = (config.get("mode") or "AUTO").upper(), config.get("allowedFunctionNames")
        if mode not in ("AUTO", "ANY", "NONE", "VALIDATED"):
            refuse(f"Invalid value at 'tool_config.function_calling_config.mode' (type.googleapis.com/google.ai.generativelanguage.v1beta.FunctionCallingConfig.Mode), \"{mode}\"")
        if names and mode not in ("ANY", "VALIDATED"):
            refuse("allowed_function_names should only be set when function calling mode is ANY.")
        for name in names or []:
            if name not in [each for each, _ in declared]:
                refuse(f"allowed_function_names contains a function that is not declared: {name}")
    return declared


def models(scope, request):
    listed = [
        {
            "name": f"models/{name}", "version": "001", "displayName": name, "description": "", "inputTokenLimit": scope.window(name, model.window),
            "outputTokenLimit": scope.max_output(name, model.max_output), "supportedGenerationMethods": ["generateContent", "countTokens"],
            "temperature": 1, "topP": 0.95, "topK": 64, "maxTemperature": 2, "thinking": True,
        }
        for name, model in MODELS.items()
    ]
    if request.model:
        for each in listed:
            if each["name"] == f"models/{request.model}":
                return "", each
        refuse(f"Model not found: models/{request.model}", 404, "NOT_FOUND")
    return "", {"models": listed}
