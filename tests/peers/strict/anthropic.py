"""Anthropic: POST /v1/messages and GET /v1/models."""

import re

import pydantic
from anthropic.types import ModelInfo, message_create_params
from anthropic.types.beta import message_create_params as beta_params

from . import anthropic_history, anthropic_stream
from .agent import pieces_of
from .anthropic_models import MODELS, claude
from .core import Refused, token_count
from .walker import Walker

VERSIONS = ("2023-06-01", "2026-10-21")
BINDING = "thinking-binding-controls-2026-08-01"
BETAS = {
    BINDING, "interleaved-thinking-2025-05-14", "context-management-2025-06-27", "compact-2026-01-12", "compact-2026-09-04",
    "task-budgets-2026-03-13", "thinking-display-updates-2026-08-18", "server-side-fallback-2026-07-01", "fast-mode-2026-02-01",
    "model-context-window-exceeded-2025-08-26", "fine-grained-tool-streaming-2025-05-14", "extended-cache-ttl-2025-04-11",
    "prompt-caching-2024-07-31", "token-efficient-tools-2025-02-19", "output-128k-2025-02-19", "context-1m-2025-08-07",
    "mid-conversation-system-clear-at-2026-08-21", "mid-conversation-output-config-2026-07-01",
    "mid-conversation-tool-changes-2026-07-01", "inline-tools-2026-09-15",
}
# Keys of the beta type that need no beta of their own, or whose beta is checked below.
WALKER = Walker(open_kinds={"InputSchemaTyped"})
SAMPLING = Walker(
    open_kinds={"InputSchemaTyped"},
    extra={
        "MessageCreateParamsStreaming": {"temperature": float, "top_p": float, "top_k": int},
        "MessageCreateParamsNonStreaming": {"temperature": float, "top_p": float, "top_k": int},
    },
)
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
PROPERTY_KEY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
KIND_NAMES = {"string": "string", "object": "dictionary", "array": "list", "integer": "integer", "number": "number", "boolean": "boolean"}


def refuse(message, status=400, kind="invalid_request_error"):
    raise Refused(status, {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_011strictfake"})


def path_text(path):
    return ".".join(str(step) for step in path)


def report(fault):
    where = path_text(fault.path)
    if fault.kind == "unknown":
        refuse(f"{where}: Extra inputs are not permitted")
    if fault.kind == "missing":
        refuse(f"{where}: Field required")
    if fault.kind == "value":
        allowed = [f"'{each}'" for each in fault.expected]
        listed = allowed[0] if len(allowed) == 1 else ", ".join(allowed[:-1]) + " or " + allowed[-1]
        refuse(f"{where}: Input should be {listed}")
    refuse(f"{where}: Input should be a valid {KIND_NAMES.get(fault.expected, fault.expected)}")


def call(scope, request):
    body, headers = request.body, request.headers
    if not (headers.get("x-api-key") or headers.get("authorization", "").startswith("Bearer ")):
        refuse("x-api-key header is required", 401, "authentication_error")
    version = headers.get("anthropic-version")
    if version is None:
        refuse("anthropic-version: header is required")
    if version not in VERSIONS:
        refuse(f"anthropic-version: \"{version}\" is not a valid version")
    betas = [each.strip() for each in headers.get("anthropic-beta", "").split(",") if each.strip()]
    for beta in betas:
        if beta not in BETAS:
            refuse(f"Unexpected value(s) `{beta}` for the `anthropic-beta` header. Please consult our documentation at docs.claude.com or try again without the header.")
    if not isinstance(body, dict):
        refuse("The request body is not valid JSON")
    request.model = body.get("model") if isinstance(body.get("model"), str) else ""
    check_types(body, version, betas)
    model = claude(request.model)
    if model is None:
        refuse(f"model: {request.model}", 404, "not_found_error")
    check_parameters(scope, body, request.model, model)
    check_thinking(body, model)
    check_tools(body, model)
    history = anthropic_history.check(scope, request, model, BINDING in betas)
    check_size(scope, body, request.model, model)
    thinking = (body.get("thinking") or {}).get("type")
    thinks = thinking in ("adaptive", "enabled") or (thinking is None and model.on_by_default)
    if thinking == "between_tools":
        thinks = history.steps > 0
    choice = (body.get("tool_choice") or {}).get("type")
    tools = [] if choice == "none" else [(tool["name"], tool.get("input_schema")) for tool in body.get("tools") or [] if "name" in tool]
    if choice == "tool":
        tools = [tool for tool in tools if tool[0] == body["tool_choice"]["name"]]
    pieces = pieces_of(scope, "anthropic", request.model, tools, history.steps, thinks, choice in ("any", "tool"))
    anthropic_stream.refuse_if_scripted(pieces, history.has_images)
    if not body.get("stream"):
        refuse("stream: this fake answers streams only")
    return "text/event-stream; charset=utf-8", anthropic_stream.events(scope, request, model, history, pieces, BINDING in betas)


def check_types(body, version, betas):
    kind = "MessageCreateParamsStreaming" if body.get("stream") else "MessageCreateParamsNonStreaming"
    params = beta_params if betas else message_create_params
    # The header makes the list of betas, and user and workspace are headers too.
    given = body
    for name in ("betas", "workspace_id", "user_profile_id"):
        if name in given:
            refuse(f"{name}: Extra inputs are not permitted")
    walker = SAMPLING if version == "2023-06-01" else WALKER
    if faults := walker.check(getattr(params, kind), given):
        report(faults[0])
    if betas and BINDING not in betas and "block_binding" in (body.get("thinking") or {}):
        refuse(f"thinking.{body['thinking'].get('type')}.block_binding: Extra inputs are not permitted")


def check_parameters(scope, body, name, model):
    limit = scope.max_output(name, model.max_output)
    if body["max_tokens"] > limit:
        refuse(f"max_tokens: {body['max_tokens']} > {limit}, which is the maximum allowed number of output tokens for {name}")
    if body["max_tokens"] < 0:
        refuse("max_tokens: Input should be greater than or equal to 0")
    for key in ("temperature", "top_p", "top_k"):
        if key in body and not model.sampling:
            refuse(f"`{key}` is deprecated for this model.")
    if "temperature" in body and "top_p" in body:
        refuse("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")
    thinking = (body.get("thinking") or {}).get("type")
    if thinking in ("enabled", "adaptive"):
        if body.get("temperature", 1) != 1:
            refuse("`temperature` may only be set to 1 when thinking is enabled. Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking#important-considerations-when-using-extended-thinking")
        if "top_k" in body:
            refuse("`top_k` must be unset when thinking is enabled.")
        if body.get("top_p", 1) < 0.95:
            refuse("`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled.")
    if not 0 <= body.get("temperature", 1) <= 1:
        refuse("temperature: range: 0..1")
    for stop in body.get("stop_sequences") or []:
        if not stop.strip():
            refuse("stop_sequences: each stop sequence must contain non-whitespace")
    effort = (body.get("output_config") or {}).get("effort")
    if effort is not None:
        if not model.efforts:
            refuse("This model does not support the effort parameter.")
        if effort not in model.efforts:
            refuse(f"output_config.effort: effort level \"{effort}\" is not supported for this model.")
    output = (body.get("output_config") or {}).get("format")
    if output and output["schema"].get("type") == "object" and output["schema"].get("additionalProperties") is not False:
        refuse("output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false")


def check_thinking(body, model):
    thinking = body.get("thinking")
    if not thinking:
        return
    kind = thinking["type"]
    if kind not in model.thinking:
        if kind == "adaptive":
            refuse("adaptive thinking is not supported on this model")
        hint = 'Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
        if kind == "disabled" and "between_tools" in model.thinking:
            hint = 'Use "thinking.type.between_tools" to think only between tool calls.'
        refuse(f'"thinking.type.{kind}" is not supported for this model. {hint}')
    if kind in model.low_effort_only and (body.get("output_config") or {}).get("effort") in ("xhigh", "max"):
        refuse(f'"thinking.type.{kind}" is not supported with effort "{body["output_config"]["effort"]}".')
    if kind == "enabled":
        if thinking["budget_tokens"] < 1024:
            refuse("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024")
        if thinking["budget_tokens"] >= body["max_tokens"]:
            refuse("`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size")


def check_tools(body, model):
    tools, choice = body.get("tools") or [], body.get("tool_choice")
    names = [tool.get("name") for tool in tools]
    if choice and not tools:
        refuse("tool_choice: `tool_choice` may only be specified while providing `tools`.")
    if choice and choice["type"] in ("any", "tool"):
        if not model.forced_tools:
            refuse('tool_choice: type "tool" and "any" are not supported for this model.')
        if (body.get("thinking") or {}).get("type") == "enabled":
            refuse("Thinking may not be enabled when tool_choice forces tool use.")
        if choice["type"] == "tool" and choice["name"] not in names:
            refuse(f"Tool '{choice['name']}' not found in provided tools")
    if len(set(names)) != len(names):
        refuse("tools: Tool names must be unique.")
    for at, tool in enumerate(tools):
        if "input_schema" not in tool:
            continue
        where = f"tools.{at}.custom"
        if not TOOL_NAME.fullmatch(tool["name"]):
            refuse(f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'")
        check_schema(tool["input_schema"], f"{where}.input_schema")


def check_schema(schema, where):
    if "type" not in schema:
        refuse(f"{where}.type: Field required")
    if schema["type"] != "object":
        refuse(f"{where}.type: Input should be 'object'")
    if any(key in schema for key in ("oneOf", "allOf", "anyOf")):
        refuse(f"{where}: input_schema does not support oneOf, allOf, or anyOf at the top level")
    check_keys(schema, where)
    import jsonschema

    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError:
        refuse(f"{where}: JSON schema is invalid. It must match JSON Schema draft 2020-12 (https://json-schema.org/draft/2020-12). Learn more about tool use at https://docs.claude.com/en/docs/tool-use.")


def check_keys(schema, where):
    if isinstance(schema, list):
        for each in schema:
            check_keys(each, where)
    if not isinstance(schema, dict):
        return
    properties = schema.get("properties")
    if isinstance(properties, dict):
        for key in properties:
            if not PROPERTY_KEY.fullmatch(key):
                refuse(f"{where}.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{{1,64}}$'")
        for each in properties.values():
            check_keys(each, where)
    for key in ("items", "anyOf", "oneOf", "allOf", "additionalProperties"):
        check_keys(schema.get(key), where)


def check_size(scope, body, name, model):
    tokens = token_count([body.get("system", ""), body.get("tools", []), body["messages"]])
    window = scope.window(name, model.window)
    if tokens > window:
        refuse(f"prompt is too long: {tokens} tokens > {window} maximum")


def models(scope, request):
    """The list of models, with limits and capabilities."""
    supported = lambda value: {"supported": bool(value)}
    data = []
    for name, model in MODELS.items():
        info = {
            "id": name, "type": "model", "display_name": name, "created_at": "2026-09-22T00:00:00Z", "lifecycle": "active",
            "deprecated_at": None, "retires_at": None, "line": name.split("-")[1],
            "max_input_tokens": scope.window(name, model.window), "max_tokens": scope.max_output(name, model.max_output),
            "capabilities": {
                **{key: supported(True) for key in ("batch", "citations", "code_execution", "image_input", "pdf_input", "structured_outputs")},
                "context_management": {"supported": True},
                "effort": {"supported": bool(model.efforts), **{each: supported(each in model.efforts) for each in ("low", "medium", "high", "max", "xhigh")}},
                "server_tools": {"supported": True, "web_search": supported(True), "code_execution": supported(True)},
                "thinking": {"supported": True, "types": {each: supported(each in model.thinking) for each in ("adaptive", "enabled", "disabled", "between_tools")}},
            },
        }
        try:
            ModelInfo.model_validate(info)
        except pydantic.ValidationError as error:
            raise AssertionError(f"the fake's own list is wrong: {error}") from error
        data.append(info)
    if request.model:
        for info in data:
            if info["id"] == request.model:
                return "", info
        refuse(f"model: {request.model}", 404, "not_found_error")
    return "", {"data": data, "has_more": False, "first_id": data[0]["id"], "last_id": data[-1]["id"]}
