"""One broken request for each rule: how a good request is changed, and the words that it is refused with."""

import base64

from .core import seal

JPEG = base64.b64encode(b"\xff\xd8\xff\xe0" + b"\0" * 64).decode()
BMP = base64.b64encode(b"BM" + b"\0" * 64).decode()


def put(*path_and_value):
    """Sets the value at a path."""
    *path, value = path_and_value

    def change(body):
        for step in path[:-1]:
            body = body[step]
        body[path[-1]] = value

    return change


def drop(*path):
    def change(body):
        for step in path[:-1]:
            body = body[step]
        del body[path[-1]]

    return change


def both(*changes):
    def change(body):
        for each in changes:
            each(body)

    return change


def first(blocks, kind):
    return next(block for block in blocks if block.get("type") == kind)


def with_headers(change=None, **headers):
    def changed(body, given):
        given.update({name.replace("_", "-"): value for name, value in headers.items()})
        if change:
            change(body)

    return changed


def on_thinking(change):
    return lambda body: change(first(body["messages"][-2]["content"], "thinking"))


def remove_thinking_at(index):
    def change(body):
        content = body["messages"][-2]["content"]
        at = [at for at, block in enumerate(content) if block["type"] == "thinking"][index]
        del content[at]

    return change


def schema(value):
    return put("tools", 0, "input_schema", value)


FOREIGN = seal(vendor="anthropic", model="claude-sonnet-5-5", prefix="0", previous="", text="0", id="x")
SONNET = "claude-sonnet-5-5"
CONVERSATION = "The block is bound to a different conversation."
MODIFIED = "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified."
EPHEMERAL = {"type": "ephemeral"}
ANTHROPIC = [
    (put("foo", 1), "foo: Extra inputs are not permitted"),
    (put("messages", 0, "content", 0, "foo", 1), "messages.0.content.0.foo: Extra inputs are not permitted"),
    (put("temperature", 1.0), "temperature: Extra inputs are not permitted"),
    (with_headers(put("temperature", 0.5), anthropic_version="2023-06-01"), "`temperature` is deprecated for this model."),
    (with_headers(anthropic_beta="nonsense"), "Unexpected value(s) `nonsense` for the `anthropic-beta` header."),
    (drop("max_tokens"), "max_tokens: Field required"),
    (put("max_tokens", 200_000), "max_tokens: 200000 > 128000, which is the maximum allowed number of output tokens for claude-sonnet-5-5"),
    (put("model", "claude-9"), "model: claude-9"),
    (put("thinking", {"type": "enabled", "budget_tokens": 2048}), '"thinking.type.enabled" is not supported for this model.'),
    (put("thinking", {"type": "disabled"}), '"thinking.type.disabled" is not supported for this model.'),
    (both(put("thinking", {"type": "between_tools"}), put("output_config", {"effort": "max"})), '"thinking.type.between_tools" is not supported with effort'),
    (put("output_config", {"effort": "minimal"}), "output_config.effort: Input should be"),
    (put("tool_choice", {"type": "any"}), 'tool_choice: type "tool" and "any" are not supported for this model.'),
    (put("thinking", {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}), "block_binding: Extra inputs are not permitted"),
    (put("system", "changed"), CONVERSATION),
    (put("tools", 0, "description", "changed"), CONVERSATION),
    (put("messages", 0, "content", 0, "text", "changed"), CONVERSATION),
    (put("messages", 2, "content", 0, "content", "rainy"), CONVERSATION),
    (put("system", "changed"), "That setting requires the `thinking-binding-controls-2026-08-01` value in the `anthropic-beta` header."),
    (on_thinking(lambda block: block.update(signature="AAAA")), "Invalid `signature` in `thinking` block"),
    (on_thinking(lambda block: block.update(thinking="changed")), MODIFIED),
    (on_thinking(lambda block: block.pop("signature")), "signature: Field required"),
    (on_thinking(lambda block: block.update(cache_control=EPHEMERAL)), "cache_control: Extra inputs are not permitted"),
    (remove_thinking_at(-1), MODIFIED),
    (lambda body: body["messages"][-2]["content"].reverse(), CONVERSATION),
    (put("messages", [{"role": "assistant", "content": "x"}]), 'messages: first message must use the "user" role'),
    (put("messages", []), "messages: at least one message is required"),
    (lambda body: body["messages"].append({"role": "assistant", "content": "x"}), "This model does not support assistant message prefill."),
    (drop("messages", -1, "content", 0), "all messages must have non-empty content"),
    (lambda body: body["messages"].__setitem__(2, {"role": "user", "content": "hm"}), "`tool_use` ids were found without `tool_result` blocks immediately after"),
    (lambda body: body["messages"][-1]["content"].insert(0, {"type": "text", "text": "hm"}), "`tool_use` ids were found without"),
    (put("messages", [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1"}]}]), "unexpected `tool_use_id` found in `tool_result` blocks: toolu_1"),
    (lambda body: body["messages"][-1]["content"].append(dict(body["messages"][-1]["content"][0])), "each tool_use must have a single result"),
    (put("messages", 0, "content", 0, "text", ""), "messages: text content blocks must be non-empty"),
    (put("messages", 0, "content", 0, "text", " "), "messages: text content blocks must contain non-whitespace text"),
    (put("messages", 0, "content", 1, "source", "data", JPEG), "The image was specified using the image/png media type, but the image appears to be a image/jpeg image"),
    (put("messages", 0, "content", 1, "source", "data", BMP), "The image was specified using the image/png media type"),
    (put("messages", 0, "content", 1, "source", "data", "AAAA"), "Could not process image"),
    (put("messages", 2, "content", 0, "tool_use_id", "a.b"), "String should match pattern '^[a-zA-Z0-9_-]+$'"),
    (put("messages", 2, "content", 0, "is_error", 1), "Input should be a valid boolean"),
    (lambda body: [block.update(cache_control=EPHEMERAL) for message in body["messages"] for block in message["content"] if block["type"] in ("text", "tool_result")], "A maximum of 4 blocks with cache_control may be provided."),
    (both(put("tools", 0, "cache_control", EPHEMERAL), put("system", 0, "cache_control", {"type": "ephemeral", "ttl": "1h"})), "must not come after a ttl='5m'"),
    (schema({"type": "object", "anyOf": [{}]}), "tools.0.custom.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"),
    (schema({"type": "object", "properties": {"a b": {}}}), "tools.0.custom.input_schema.properties: Property keys should match pattern"),
    (schema({"properties": {}}), "tools.0.custom.input_schema.type: Field required"),
    (schema({"type": "object", "properties": {"a": {"type": "strin"}}}), "JSON schema is invalid. It must match JSON Schema draft 2020-12"),
    (put("tools", 0, "name", "a.b"), "tools.0.custom.name: String should match pattern"),
    (lambda body: body["tools"].append(dict(body["tools"][0])), "tools: Tool names must be unique."),
    (both(drop("tools"), put("tool_choice", {"type": "auto"})), "`tool_choice` may only be specified while providing `tools`"),
    (put("stop_sequences", [" "]), "stop_sequences: each stop sequence must contain non-whitespace"),
    (lambda body: body["messages"][-1]["content"].append({"type": "text", "text": "word " * 1_000_000}), "tokens > 1000000 maximum"),
    (with_headers(anthropic_version="2020-01-01"), "is not a valid version"),
]
MANUAL_START = "a final `assistant` message must start with a thinking block"
ANTHROPIC_MANUAL = [
    (put("thinking", {"type": "adaptive"}), "adaptive thinking is not supported on this model"),
    (put("thinking", {"type": "enabled", "budget_tokens": 100}), "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"),
    (put("thinking", {"type": "enabled", "budget_tokens": 4096}), "`max_tokens` must be greater than `thinking.budget_tokens`"),
    (put("output_config", {"effort": "low"}), "This model does not support the effort parameter."),
    (put("tool_choice", {"type": "any"}), "Thinking may not be enabled when tool_choice forces tool use."),
    (lambda body: body["messages"][-2]["content"].__delitem__(0), MANUAL_START),
    (with_headers(put("temperature", 0.5), anthropic_version="2023-06-01"), "`temperature` may only be set to 1 when thinking is enabled."),
    (put("max_tokens", 100_000), "max_tokens: 100000 > 64000"),
]


def item(kind, change, which=-1):
    return lambda body: change([each for each in body["input"] if each.get("type") == kind][which])


def without_items(kind):
    return lambda body: body.update(input=[each for each in body["input"] if each.get("type") != kind])


RS_FOREIGN = seal(vendor="openai", model="gpt-5", id="rs_1")
RESPONSES = [
    (put("foo", 1), "Unknown parameter: 'foo'."),
    (put("input", 0, "foo", 1), "Unknown parameter: 'input[0].foo'."),
    (put("seed", 1), "Unknown parameter: 'seed'."),
    (put("max_tokens", 100), "Unknown parameter: 'max_tokens'."),
    (put("temperature", 0.5), "Unsupported parameter: 'temperature' is not supported with this model."),
    (put("max_output_tokens", 10), "Invalid 'max_output_tokens': integer below minimum value. Expected a value >= 16, but got 10 instead."),
    (put("max_output_tokens", 200_000), "Invalid 'max_output_tokens': integer above maximum value."),
    (put("reasoning", "effort", "minimal"), "Unsupported value: 'minimal' is not supported with the 'gpt-6-sol' model."),
    (put("prompt_cache_key", "k" * 65), "Invalid 'prompt_cache_key': string too long. Expected a string with maximum length 64"),
    (put("model", "gpt-9"), "The model `gpt-9` does not exist or you do not have access to it."),
    (put("input", []), "must be provided"),
    (put("input", 0, "content", 0, "type", "text"), "Invalid value: 'text'."),
    (put("input", 0, "role", "assistant"), "Invalid value: 'input_text'. Supported values are: 'output_text' and 'refusal'."),
    (put("input", 0, "content", 1, "image_url", f"data:image/png;base64,{BMP}"), "You uploaded an unsupported image."),
    (put("input", 0, "content", 2, "file_data", "AAAA"), "Expected a base64-encoded data URL"),
    (item("reasoning", lambda each: each.update(encrypted_content="AAAA")), "could not be verified."),
    (item("reasoning", lambda each: each.update(id="rs_1", encrypted_content=RS_FOREIGN)), "could not be verified."),
    (item("reasoning", lambda each: each.pop("encrypted_content")), "Items are not persisted when `store` is set to false."),
    (item("reasoning", lambda each: each.pop("summary")), "summary'."),
    (item("reasoning", lambda each: each.update(id="x_1")), "Expected an ID that begins with 'rs'."),
    (without_items("reasoning"), "without its required 'reasoning' item"),
    (lambda body: body["input"].append([each for each in body["input"] if each.get("type") == "reasoning"][-1] | {"id": None}) or body["input"][-1].pop("id"), "was provided without its required following item."),
    (lambda body: body["input"].append(body["input"][1]), "Duplicate item found with id"),
    (without_items("function_call_output"), "No tool output found for function call call_"),
    (without_items("function_call"), "No tool call found for function call output with call_id"),
    (lambda body: body["input"].append({"type": "function_call_output", "call_id": "call_x", "output": ""}), "No tool call found for function call output with call_id call_x."),
    (item("function_call", lambda each: each.update(call_id="c" * 65)), "string too long. Expected a string with maximum length 64"),
    (item("function_call", lambda each: each.update(arguments={})), "expected a string, but got an object instead."),
    (put("tools", 0, "parameters", {"type": "array"}), "schema must be a JSON Schema of 'type: \"object\"'"),
    (put("tools", 0, "parameters", {"type": "object", "properties": {}, "anyOf": []}), "not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level."),
    (put("tools", 0, "parameters", {"type": "object", "properties": {"a": {"type": "array"}}}), "In context=('properties', 'a'), array schema missing items."),
    (put("tools", 0, "parameters", {"type": "object"}), "object schema missing properties."),
    (put("tools", 0, "strict", True), "'additionalProperties' is required to be supplied and to be false."),
    (put("tools", 0, "name", "a.b"), "string does not match pattern."),
    (put("tools", 0, {"type": "function", "function": {"name": "x"}}), "tools[0]"),
    (put("tool_choice", {"type": "function", "name": "x"}), "Tool choice 'function' not found in 'tools' parameter."),
    (put("text", {"format": {"type": "json_object"}}), "must contain the word 'json'"),
    (put("metadata", {str(key): "" for key in range(17)}), "at most 16 properties"),
    (put("instructions", "word " * 1_000_000), "Your input exceeds the context window of this model. Please adjust your input and try again."),
    (put("include", ["x"]), "Invalid value: 'x'."),
    (lambda body, headers: headers.clear(), "You didn't provide an API key."),
]
RESPONSES_OLD = [
    (put("reasoning", "effort", "none"), "Unsupported value: 'none' is not supported with the 'gpt-5' model."),
    (put("reasoning", "mode", "pro"), "reasoning.mode"),
    (put("prompt_cache_options", {"mode": "implicit"}), "Unsupported parameter: 'prompt_cache_options'"),
    (put("model", "gpt-4.1"), "Unsupported parameter: 'reasoning.effort' is not supported with this model."),
    (both(put("model", "gpt-4.1"), drop("reasoning")), "Encrypted content is not supported with this model."),
]


def assistant(change, which=-1):
    return lambda body: change([each for each in body["messages"] if each["role"] == "assistant"][which])


CHAT = [
    (put("foo", 1), "Unknown parameter: 'foo'."),
    (assistant(lambda each: each.update(reasoning_content="x")), "Unknown parameter: 'messages["),
    (drop("reasoning_effort"), "Function tools with reasoning_effort are not supported for gpt-6-sol in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'."),
    (put("model", "gpt-6-astra"), "'none' is not supported with the 'gpt-6-astra' model."),
    (put("max_tokens", 10), "Use 'max_completion_tokens' instead."),
    (put("tools", []), "Invalid 'tools': empty array."),
    (both(drop("tools"), put("parallel_tool_calls", False)), "'parallel_tool_calls' is only allowed when 'tools' are specified."),
    (both(drop("tools"), drop("reasoning_effort"), put("temperature", 0.2)), "'temperature' does not support 0.2 with this model. Only the default (1) value is supported."),
    (drop("messages", -1), "An assistant message with 'tool_calls' must be followed by tool messages"),
    (lambda body: body["messages"].append({"role": "tool", "tool_call_id": "x", "content": ""}), "must be a response to a preceeding message with 'tool_calls'."),
    (assistant(lambda each: each["tool_calls"][0].update(id="c" * 41)), "Expected a string with maximum length 40"),
    (put("messages", 1, "content", [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{BMP}"}}]), "You uploaded an unsupported image."),
    (put("tools", 0, "function", "parameters", {"type": "object", "properties": {"a": {"type": "array"}}}), "array schema missing items."),
    (put("tools", 0, "function", "name", "n" * 65), "Expected a string with maximum length 64"),
    (put("messages", 0, "content", "word " * 1_000_000), "Input tokens exceed the configured limit of 922000 tokens."),
]
DEEPSEEK = [
    (assistant(lambda each: each.pop("reasoning_content"), 0), "The reasoning_content in the thinking mode must be passed back to the API."),
    (lambda body: body["messages"].extend([{"role": "assistant", "content": "Done."}, {"role": "user", "content": "Thanks."}]), "The reasoning_content in the thinking mode must be passed back to the API."),
    (put("messages", 0, "role", "developer"), "unknown variant `developer`"),
    (put("tool_choice", "required"), "Thinking mode does not support this tool_choice"),
    (put("max_tokens", 500_000), "Invalid max_tokens value, the valid range of max_tokens is [1, 393216]"),
    (put("response_format", {"type": "json_schema", "json_schema": {"name": "x"}}), "This response_format type is unavailable now"),
    (put("store", False), "store"),
    (put("messages", 0, "content", "word " * 1_000_000), "This model's maximum context length is 1048576 tokens."),
]
KIMI = [
    (assistant(lambda each: each.pop("reasoning_content")), "thinking is enabled but reasoning_content is missing in assistant tool call message at index"),
    (put("tool_choice", "required"), "tool_choice 'required' is incompatible with thinking enabled"),
    (put("temperature", 0.3), "invalid temperature"),
    (put("tools", 0, "function", "parameters", {"type": "object", "properties": {"a": {"type": "string", "anyOf": []}}}), "not a valid moonshot flavored json schema"),
    (put("tools", 0, "function", "parameters", {"type": "object", "properties": {"a": {"description": "anything"}}}), "type is not defined"),
    (put("tools", 0, "function", "name", "1a"), "function name is invalid"),
    (both(put("thinking", {"type": "enabled"}), put("reasoning_effort", "high")), "cannot specify both 'thinking' and 'reasoning_effort'"),
    (put("messages", 0, "content", "word " * 1_000_000), "Your request exceeded model token limit: 262144 (requested:"),
]
MISTRAL = [
    (assistant(lambda each: each["tool_calls"][0].update(id="call_1")), "Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9."),
    (assistant(lambda each: each.update(reasoning_content="x")), "extra_forbidden"),
    (put("max_completion_tokens", 10), "extra_forbidden"),
    (put("tools", []), "extra_forbidden"),
    (lambda body: body["messages"].append({"role": "user", "content": "x"}), "Unexpected role 'user' after role 'tool'"),
    (put("messages", 0, "role", "developer"), "developer"),
    (put("reasoning_effort", "low"), "Input should be 'none' or 'high'"),
    (put("messages", 0, "content", "word " * 1_000_000), "too large for model with 262144 maximum context length"),
]
GROQ = [
    (assistant(lambda each: each.update(reasoning_content="x")), "property 'reasoning_content' is unsupported"),
    (put("store", False), "property 'store' is unsupported, did you mean 'stop'?"),
    (put("reasoning_effort", "max"), "`reasoning_effort` must be one of"),
    (put("messages", 0, "content", "word " * 1_000_000), "Please reduce the length of the messages or completion."),
]
OPENROUTER = [
    (put("messages", 0, "content", [{"type": "text", "text": str(at), "cache_control": {"type": "ephemeral"}} for at in range(5)]), "A maximum of 4 blocks with cache_control may be provided. Found 5."),
    (put("messages", -1, "content", [{"type": "text", "text": "", "cache_control": {"type": "ephemeral"}}]), "cache_control cannot be set for empty text blocks"),
    (put("messages", -1, "cache_control", {"type": "ephemeral"}), "cache_control"),
    (assistant(lambda each: each["reasoning_details"][0].update(text="changed")), MODIFIED),
    (assistant(lambda each: each["reasoning_details"].append({"type": "reasoning.encrypted"})), "expected string, received undefined"),
    (put("messages", 0, "content", "Something else."), "The block is bound to a different conversation."),
    (put("tools", 0, "function", "description", "Changed."), "The block is bound to a different conversation."),
    (put("messages", -1, "content", "word " * 1_000_000), "This endpoint's maximum context length is 1000000 tokens."),
]
VLLM = [
    (assistant(lambda each: each["tool_calls"][0]["function"].update(arguments="")), "Expecting value"),
    (put("max_tokens", 130_000), "This model's maximum context length is 131072 tokens. However, you requested 130000 output tokens"),
]


def parameters(value):
    return lambda body: body["tools"][0]["functionDeclarations"][0].update(parameters=value) or body["tools"][0]["functionDeclarations"][0].pop("parametersJsonSchema")


def on_call(change, which=-1):
    """Changes the first part with a call of one of the model's steps."""

    def changed(body):
        contents = [each for each in body["contents"] if any("functionCall" in part for part in each["parts"])]
        change(next(part for part in contents[which]["parts"] if "functionCall" in part))

    return changed


GEMINI_FOREIGN = seal(vendor="gemini", model="gemini-3.8-flash", call="x")
GEMINI = [
    (put("foo", 1), 'Unknown name "foo": Cannot find field.'),
    (put("contents", 0, "parts", 0, "foo", 1), "Unknown name \"foo\" at 'contents[0].parts[0]': Cannot find field."),
    (on_call(lambda part: part.pop("thoughtSignature")), "Function call is missing a thought_signature in functionCall parts."),
    (on_call(lambda part: part.pop("thoughtSignature"), 0), "Function call is missing a thought_signature in functionCall parts."),
    (on_call(lambda part: part.update(thoughtSignature="AAAA")), "Corrupted thought signature."),
    (on_call(lambda part: part.update(thoughtSignature=GEMINI_FOREIGN)), "Invalid thought signature."),
    (put("generationConfig", "thinkingConfig", {"thinkingBudget": 100}), "Thinking budget is not supported for this model."),
    (put("generationConfig", "thinkingConfig", {"thinkingLevel": "MINIMAL"}), "Thinking level MINIMAL is not supported for this model."),
    (put("generationConfig", "thinkingConfig", {"thinkingLevel": "LOW", "thinkingBudget": 1}), "You can only set only one of thinking budget and thinking level."),
    (lambda body: body["contents"].append({"role": "model", "parts": [{"text": "x"}]}), "Requests ending with a model turn are not supported."),
    (put("contents", 0, "role", "assistant"), "Please use a valid role: user, model."),
    (put("contents", []), "contents is not specified"),
    (put("contents", 0, "parts", 0, "text", ""), "text parameter that is not empty"),
    (drop("contents", -1, "parts", 0), "contents.parts must not be empty"),
    (lambda body: body["contents"].pop(1), "Please ensure that function response turn comes immediately after a function call turn."),
    (lambda body: body["contents"].pop(2), "Please ensure that the number of function response parts is equal to the number of function call parts"),
    (put("contents", -1, "parts", 0, "functionResponse", "id", "x"), "Please ensure that the ids of the function responses are those of the function calls."),
    (put("contents", -1, "parts", 0, "functionResponse", "response", "text"), "contents["),
    (put("contents", 0, "parts", 1, "inlineData", "data", JPEG), "Unable to process input image."),
    (put("contents", 0, "parts", 1, "inlineData", "mimeType", "image/gif"), "Unsupported MIME type: image/gif"),
    (parameters({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}), 'Unknown name "additionalProperties"'),
    (parameters({"type": "object", "properties": {"a": {"const": 1}}}), 'Unknown name "const"'),
    (parameters({"type": "object", "properties": {"a": {"type": ["string", "null"]}}}), "Proto field is not repeating, cannot start list."),
    (parameters({"type": "object", "properties": {"a": {"type": "array"}}}), "parameters.properties[a].items: missing field."),
    (parameters({"type": "object", "properties": {}}), "should be non-empty for OBJECT type"),
    (parameters({"type": "object", "properties": {"a": {"type": "integer", "enum": [1]}}}), "(TYPE_STRING), 1"),
    (parameters({"type": "object", "properties": {"a": {"type": "string", "enum": [""]}}}), "enum[0]: cannot be empty"),
    (parameters({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["b"]}), "required[0]: property is not defined"),
    (parameters({"type": "object", "properties": {"a": {"type": "string", "anyOf": [{"type": "string"}]}}}), "specified other fields alongside any_of."),
    (put("tools", 0, "functionDeclarations", 0, "parametersJsonSchema", {"type": "string"}), "must describe an object"),
    (put("tools", 0, "functionDeclarations", 0, "parametersJsonSchema", {"type": "object", "properties": {"a": {"$ref": "#/$defs/x"}}}), "is not defined."),
    (put("tools", 0, "functionDeclarations", 0, "name", "a b"), "Invalid function name."),
    (both(drop("tools"), put("toolConfig", {"functionCallingConfig": {"mode": "AUTO"}})), "Function calling config is set without function_declarations."),
    (put("toolConfig", {"functionCallingConfig": {"mode": "AUTO", "allowedFunctionNames": ["weather"]}}), "allowed_function_names should only be set when function calling mode is ANY."),
    (put("generationConfig", "responseSchema", {"type": "object", "properties": {"a": {"type": "string"}}}), "Response schema is only supported with response mime type 'application/json'."),
    (put("generationConfig", "presencePenalty", 0.5), "Penalty is not enabled for models/gemini-4-argon"),
    (put("systemInstruction", {"parts": [{"text": "word " * 1_000_000}]}), "exceeds the maximum number of tokens allowed (1048576)."),
    (lambda body, headers: headers.clear(), "Method doesn't allow unregistered callers"),
]
GEMINI_OLD = [
    (put("generationConfig", "thinkingConfig", {"thinkingLevel": "LOW"}), "Thinking level is not supported for this model."),
    (put("generationConfig", "thinkingConfig", {"thinkingBudget": 100_000}), "The thinking budget 100000 is invalid."),
    (put("generationConfig", "responseMimeType", "application/json"), "Function calling with a response mime type: 'application/json' is unsupported"),
    (put("generationConfig", "maxOutputTokens", 100_000), "maxOutputTokens value of 100000"),
]
TOOL = ("tools", 0, "function", "parameters")
OLLAMA = [
    (put("messages", 1, "content", [{"type": "text"}]), "cannot unmarshal array into Go struct field ChatRequest.messages.content of type string"),
    (put("messages", 1, "images", ["data:image/png;base64,AAAA"]), "illegal base64 data at input byte 4"),
    (assistant(lambda each: each["tool_calls"][0]["function"].update(arguments="{}"), 0), "cannot unmarshal string into Go value of type map[string]interface {}"),
    (put("think", "xhigh"), 'invalid think value: "xhigh"'),
    (put("model", "llama3.2"), '"llama3.2" does not support thinking'),
    (put("model", "nothing"), "model 'nothing' not found"),
    (both(put("model", "gemma3"), put("think", False)), "does not support tools"),
    (both(put("model", "qwen3")), "this model is missing data required for image input"),
    (put(*TOOL, "type", ["object"]), "cannot unmarshal array into Go struct field ChatRequest.tools.function.parameters.type of type string"),
    (put(*TOOL, "properties", {"a": True}), "cannot unmarshal bool into Go value of type api.ToolProperty"),
    (put(*TOOL, "properties", {"a": {"required": True}}), "cannot unmarshal bool into Go struct field"),
    (put("options", {"stop": "x"}), 'option "stop" must be of type array'),
    (put("options", {"num_ctx": "x"}), 'option "num_ctx" must be of type integer'),
    (both(put("options", {"num_ctx": 16}), put("truncate", False)), "exceeds the available context size (16 tokens)"),
    (put("format", "yaml"), "invalid format"),
]
