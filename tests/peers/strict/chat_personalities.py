"""How servers differ that speak chat completions: what they refuse, in which words, and where reasoning goes."""

import json
import re

from . import openai_models
from .core import Refused, digest, without
from .openai_models import path_text
from .walker import Walker

ASSISTANT = "ChatCompletionAssistantMessageParam"
STREAMING = "CompletionCreateParamsStreaming"
NOT_STREAMING = "CompletionCreateParamsNonStreaming"


def walker(message=None, top=None, optional=None, **more):
    extra = {ASSISTANT: message or {}, STREAMING: top or {}, NOT_STREAMING: top or {}, **more}
    return Walker(optional=optional or {}, extra=extra)


class Person:
    """OpenAI itself; the others change what differs."""

    name = "openai"
    needs_key = True
    walker = walker()
    window, counts_output = 131_072, False
    cache_minimum, cache_step = 1024, 128
    models = []
    roles = ("developer", "system", "user", "assistant", "tool")
    # The delta that reasoning comes in, and whether usage needs asking for.
    reasoning_field, always_usage = None, False
    id_limit, id_alphabet, id_length, id_prefix = 40, None, 24, "call_"
    openai_schemas = True
    takes_images = True
    unknown_top, unsupported = (), ()

    def refuse(self, message, param=None, code=None, status=400, kind="invalid_request_error"):
        raise Refused(status, {"error": {"message": message, "type": kind, "param": param, "code": code}})

    def check_types(self, kind, body):
        if faults := self.walker.check(kind, body):
            self.report(faults[0], body)

    def report(self, fault, body):
        openai_models.report(fault)

    def overflow(self, window, tokens, answer):
        return f"Input tokens exceed the configured limit of {window} tokens. Your messages resulted in {tokens} tokens. Please reduce the length of the messages."

    def thinks(self, request, body):
        return False

    def listed(self, scope, name):
        return {}

    def marks(self, body):
        """The messages up to which a request asks the cache to keep it; nothing where the cache keeps all."""
        return None

    def refuse_if_scripted(self, pieces, has_images):
        if pieces and "error" in pieces[0]:
            error = pieces[0]["error"]
            body = error.get("body") or {"error": {"message": error.get("message", "The server had an error."), "type": error.get("type", "server_error"), "param": None, "code": error.get("code")}}
            raise Refused(error.get("status", 500), body, error.get("headers"))
        if has_images and any(piece.get("image_refused") for piece in pieces):
            self.refuse("You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp'].", None, "invalid_image_format")

    def check(self, scope, request, body):
        """Checks messages and tools; returns whether there are images."""
        if not body["messages"]:
            self.refuse("Invalid 'messages': empty array. Expected an array with minimum length 1, but got an empty array instead.", "messages", "empty_array")
        for key in self.unsupported:
            if key in body:
                self.refuse_key(key, body)
        self.check_tools(body)
        has_images, waiting, made = False, [], set()
        for at, message in enumerate(body["messages"]):
            role = message["role"]
            if role not in self.roles:
                self.refuse_role(at, role)
            if role == "tool":
                if message["tool_call_id"] not in waiting:
                    self.refuse("Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.", f"messages.[{at}].role")
                waiting.remove(message["tool_call_id"])
            elif waiting:
                self.refuse_missing(waiting, at)
            if role == "assistant":
                self.check_assistant(scope, request, body, message, at)
                waiting = [call["id"] for call in message.get("tool_calls") or []]
                for index, call in enumerate(message.get("tool_calls") or []):
                    self.check_call(call, f"messages[{at}].tool_calls[{index}]", made)
            if isinstance(message.get("content"), list):
                has_images |= self.check_parts(message["content"], at)
        if waiting:
            self.refuse_missing(waiting, len(body["messages"]))
        self.check_order(body["messages"])
        return has_images

    def refuse_key(self, key, body):
        self.refuse(f"Unrecognized request argument supplied: {key}", key)

    def refuse_role(self, at, role):
        self.refuse(f"Invalid value: '{role}'. Supported values are: {openai_models.quoted(self.roles)}.", f"messages[{at}].role", "invalid_value")

    def refuse_missing(self, waiting, at):
        self.refuse(f"An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(waiting)}", f"messages.[{at}].role")

    def check_order(self, messages):
        pass

    def check_call(self, call, where, made):
        if self.id_limit:
            openai_models.check_length(call["id"], self.id_limit, f"{where}.id")
        made.add(call["id"])
        openai_models.check_length(call["function"]["name"], 64, f"{where}.function.name")
        try:
            arguments = json.loads(call["function"]["arguments"])
        except ValueError:
            arguments = None
        if not isinstance(arguments, dict):
            self.refuse_arguments(call, where)

    def refuse_arguments(self, call, where):
        # OpenAI takes any text here; a server with templates does not.
        pass

    def check_assistant(self, scope, request, body, message, at):
        if not message.get("content") and not message.get("tool_calls") and not message.get("refusal"):
            self.refuse(f"Invalid value for 'content': expected a string, got null.", f"messages.[{at}].content")

    def check_parts(self, parts, at):
        if not parts:
            self.refuse(f"Invalid 'messages[{at}].content': empty array. Expected an array with minimum length 1, but got an empty array instead.", f"messages[{at}].content", "empty_array")
        has_images = False
        for index, part in enumerate(parts):
            if part["type"] == "image_url":
                has_images = True
                if not self.takes_images:
                    self.refuse_images(at)
                openai_models.check_image(part["image_url"]["url"], f"messages[{at}].content[{index}].image_url.url")
            if part["type"] == "file":
                data = part["file"].get("file_data") or ""
                if not data.startswith("data:application/pdf;base64,"):
                    self.refuse("Invalid file data: expected a base64-encoded data URL of a PDF.", f"messages[{at}].content[{index}].file.file_data", "invalid_value")
        return has_images

    def refuse_images(self, at):
        self.refuse(f"Failed to deserialize the JSON body into the target type: messages[{at}]: unknown variant `image_url`, expected `text` at line 1 column 1")

    def check_tools(self, body):
        if body.get("tools") == []:
            self.refuse("Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead.", "tools", "empty_array")
        if len(body.get("tools") or []) > 128:
            self.refuse(f"Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length {len(body['tools'])} instead.", "tools", "array_above_max_length")
        for at, tool in enumerate(body.get("tools") or []):
            function = tool["function"]
            parameters = function.get("parameters") if self.openai_schemas else None
            openai_models.check_tool(function["name"], parameters, bool(function.get("strict")), f"tools[{at}].function", 64)

    def remember(self, scope, ids, thinking):
        for each in ids:
            scope.issued[each] = thinking


class DeepSeek(Person):
    name = "deepseek"
    walker = walker({"reasoning_content": str, "prefix": bool}, {"thinking": dict, "reasoning_effort": str})
    window, counts_output = 1_048_576, True
    cache_minimum, cache_step = 64, 64
    models = ["deepseek-flash", "deepseek-v4-pro"]
    roles = ("system", "user", "assistant", "tool")
    reasoning_field = "reasoning_content"
    always_usage = True
    takes_images = True
    unsupported = ("store", "prompt_cache_key", "max_completion_tokens", "service_tier")

    def thinks(self, request, body):
        return (body.get("thinking") or {}).get("type") != "disabled"

    def check(self, scope, request, body):
        has_images = super().check(scope, request, body)
        if self.thinks(request, body):
            for at in without_reasoning(body["messages"]):
                self.note_missing_in_turn(request, at)
        return has_images

    def note_missing_in_turn(self, request, at):
        self.refuse_missing_reasoning(at)

    def refuse_role(self, at, role):
        self.refuse(f"Failed to deserialize the JSON body into the target type: messages[{at}].role: unknown variant `{role}`, expected one of `system`, `user`, `assistant`, `tool` at line 1 column 1")

    def refuse_missing(self, waiting, at):
        self.refuse("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. (insufficient tool messages following tool_calls message)", code="invalid_request_error")

    def check_tools(self, body):
        super().check_tools(body)
        if self.thinks(None, body) and body.get("tool_choice") not in (None, "auto", "none"):
            self.refuse("Thinking mode does not support this tool_choice", code="invalid_request_error")
        if (body.get("response_format") or {}).get("type") == "json_schema":
            self.refuse("This response_format type is unavailable now", code="invalid_request_error")
        limit = body.get("max_tokens")
        if limit is not None and not 1 <= limit <= 393_216:
            self.refuse(f"Invalid max_tokens value, the valid range of max_tokens is [1, 393216]", code="invalid_request_error")

    def check_assistant(self, scope, request, body, message, at):
        super().check_assistant(scope, request, body, message, at)
        if message.get("tool_calls") and self.thinks(request, body):
            if message.get("reasoning_content") is None:
                self.refuse_missing_reasoning(at)
            warn_of_changes(scope, request, message, message["reasoning_content"], at)

    def refuse_missing_reasoning(self, at):
        self.refuse("The reasoning_content in the thinking mode must be passed back to the API.", code="invalid_request_error")

    def overflow(self, window, tokens, answer):
        return f"This model's maximum context length is {window} tokens. However, you requested {tokens + answer} tokens ({tokens} in the messages, {answer} in the completion). Please reduce the length of the messages or completion."


def without_reasoning(messages):
    """Where answers without reasoning stand, with calls or without, in turns in which the model made calls."""
    turn, missing = [], []
    for at, message in enumerate([*messages, {"role": "user"}]):
        if message["role"] == "assistant":
            turn.append((at, message))
        if message["role"] == "user":
            if any(each.get("tool_calls") for _, each in turn):
                missing += [at for at, each in turn if each.get("reasoning_content") is None]
            turn = []
    return missing


def warn_of_changes(scope, request, message, given, at):
    """Reasoning that the fake gave and that came back changed or emptied."""
    for call in message.get("tool_calls") or []:
        issued = scope.issued.get(call["id"])
        if issued is not None and issued != given:
            request.warn(f"messages[{at}]: the reasoning is not the one that was given")


class Kimi(DeepSeek):
    name = "kimi"
    walker = walker({"reasoning_content": str, "partial": bool}, {"thinking": dict, "reasoning_effort": str})
    window, counts_output = 262_144, False
    cache_minimum, cache_step = 256, 1
    models = ["kimi-k2.6", "kimi-k3"]
    takes_images = True
    # Its own flavour, see check_moonshot.
    openai_schemas = False
    unsupported = ("store",)

    def note_missing_in_turn(self, request, at):
        # Kimi refuses answers with calls only, and asks for the reasoning of all.
        request.warn(f"messages[{at}]: the reasoning is not sent back")

    def refuse_missing_reasoning(self, at):
        self.refuse(f"thinking is enabled but reasoning_content is missing in assistant tool call message at index {at}")

    def check_tools(self, body):
        Person.check_tools(self, body)
        is_third = body["model"].startswith("kimi-k3")
        choice = body.get("tool_choice")
        if self.thinks(None, body) and not is_third and (choice == "required" or isinstance(choice, dict)):
            self.refuse(f"tool_choice '{'specified' if isinstance(choice, dict) else 'required'}' is incompatible with thinking enabled")
        if body.get("thinking") is not None and body.get("reasoning_effort") is not None:
            self.refuse("cannot specify both 'thinking' and 'reasoning_effort'")
        allowed = ("low", "high", "max") if is_third else ()
        if body.get("reasoning_effort") is not None and body["reasoning_effort"] not in allowed:
            self.refuse(f"invalid reasoning_effort: {body['reasoning_effort']}")
        if body.get("temperature") is not None:
            wanted = 1.0 if self.thinks(None, body) else 0.6
            if body["temperature"] != wanted:
                self.refuse(f"invalid temperature: only {wanted} is allowed for this model")
        for tool in body.get("tools") or []:
            function = tool["function"]
            if function["name"][:1].isdigit():
                self.refuse("function name is invalid, must start with a letter and can contain letters, numbers, underscores, and dashes")
            check_moonshot(function.get("parameters") or {}, "root", self.refuse)

    def overflow(self, window, tokens, answer):
        return f"Invalid request: Your request exceeded model token limit: {window} (requested: {tokens})"


def check_moonshot(schema, path, refuse, root=None):
    """Moonshot's flavour of JSON Schema."""
    root = schema if root is None else root
    bad = lambda text: refuse(f"tools.function.parameters is not a valid moonshot flavored json schema, details: <At path '{path}': {text}>")
    if not isinstance(schema, dict):
        return
    if "anyOf" in schema and "type" in schema:
        bad("when using anyOf, type should be defined in anyOf items instead of the parent schema")
    reference = schema.get("$ref")
    if reference:
        if not reference.startswith("#/$defs/") or reference[8:] not in (root.get("$defs") or {}):
            refuse(f"$defs not found for reference: {reference}")
        others = [key for key in schema if key != "$ref"]
        if others:
            bad(f"conflicting keywords found after $ref expansion: {others[0]}")
    if not any(key in schema for key in ("type", "anyOf", "$ref")):
        bad("type is not defined")
    if "anyOf" in schema and not 1 <= len(schema["anyOf"]) <= 10:
        bad("anyOf must have between 1 and 10 items")
    if "items" in schema and not isinstance(schema["items"], dict):
        bad("items must be an object")
    missing = [name for name in schema.get("required") or [] if name not in (schema.get("properties") or {})]
    if missing:
        bad(f"required property '{missing[0]}' is not defined")
    for key, each in (schema.get("properties") or {}).items():
        check_moonshot(each, f"properties.{key}", refuse, root)
    check_moonshot(schema.get("items"), f"{path}.items", refuse, root)
    for each in schema.get("anyOf") or []:
        check_moonshot(each, path, refuse, root)


class Mistral(Person):
    name = "mistral"
    walker = walker(
        {"prefix": bool}, {"random_seed": int, "safe_prompt": bool, "reasoning_effort": str, "prompt_mode": str}, ChatCompletionToolMessageParam={"name": str},
    )
    window = 262_144
    models = ["mistral-medium-2604", "mistral-small-2603"]
    roles = ("system", "user", "assistant", "tool")
    reasoning_field = "parts"
    always_usage = True
    id_limit, id_length, id_prefix = None, 9, ""
    unsupported = ("max_completion_tokens", "store", "seed", "service_tier", "logit_bias", "verbosity", "safety_identifier", "metadata", "user")

    def refuse(self, message, param=None, code=None, status=400, kind="invalid_request_error"):
        raise Refused(status, {"object": "error", "message": message, "type": kind, "param": None, "code": code or "3000"})

    def forbid(self, loc, value):
        raise Refused(422, {"object": "error", "message": {"detail": [{"type": "extra_forbidden", "loc": ["body", *loc], "msg": "Extra inputs are not permitted", "input": value}]}, "type": "invalid_request_error", "param": None, "code": None})

    def report(self, fault, body):
        loc = list(fault.path)
        if fault.kind == "unknown":
            if loc[:1] == ["messages"]:
                loc.insert(2, body["messages"][loc[1]]["role"])
            self.forbid(loc, fault.value)
        raise Refused(422, {"object": "error", "message": {"detail": [{"type": fault.kind, "loc": ["body", *loc], "msg": f"Input should be {fault.expected}", "input": fault.value}]}, "type": "invalid_request_error", "param": None, "code": None})

    def check_types(self, kind, body):
        """Parts of thinking are an addition of Mistral's; the rest is checked as if they were text."""
        messages = body.get("messages")
        plain = [self.without_thinking(message) for message in messages] if isinstance(messages, list) else messages
        super().check_types(kind, {**body, "messages": plain})

    @staticmethod
    def without_thinking(message):
        if not (isinstance(message, dict) and message.get("role") == "assistant" and isinstance(message.get("content"), list)):
            return message
        is_thinking = lambda part: isinstance(part, dict) and part.get("type") == "thinking" and isinstance(part.get("thinking"), list)
        return {**message, "content": [{"type": "text", "text": "thinking"} if is_thinking(part) else part for part in message["content"]]}

    def refuse_key(self, key, body):
        self.forbid([key], body[key])

    def thinks(self, request, body):
        return body.get("reasoning_effort") not in (None, "none") or body.get("prompt_mode") == "reasoning"

    def check_tools(self, body):
        if body.get("tools") == []:
            self.forbid(["tools"], [])
        if body.get("reasoning_effort") not in (None, "none", "high"):
            self.refuse(f"reasoning_effort: Input should be 'none' or 'high'", status=422)

    def check_call(self, call, where, made):
        if not re.fullmatch(r"[a-zA-Z0-9]{9}", call["id"]):
            self.refuse(f"Tool call id was {call['id']} but must be a-z, A-Z, 0-9, with a length of 9.", kind="invalid_function_call", code="3280")

    def check_order(self, messages):
        for at, message in enumerate(messages):
            if at and message["role"] == "system":
                self.refuse("Expected last role User or Tool (or Assistant with prefix True) for serving but got system" if at == len(messages) - 1 else f"Unexpected role 'system' after role '{messages[at - 1]['role']}'", kind="invalid_request_message_order", code="3230")
            if at and message["role"] == "user" and messages[at - 1]["role"] == "tool":
                self.refuse("Unexpected role 'user' after role 'tool'", kind="invalid_request_message_order", code="3230")
        if messages[-1]["role"] == "assistant" and not messages[-1].get("prefix"):
            self.refuse("Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant", kind="invalid_request_message_order", code="3230")

    def overflow(self, window, tokens, answer):
        return f"Prompt contains {tokens} tokens, too large for model with {window} maximum context length"


class Groq(Person):
    name = "groq"
    walker = walker({"reasoning": str}, {"reasoning_format": str, "include_reasoning": bool, "reasoning_effort": str})
    models = ["openai/gpt-oss-120b", "qwen/qwen3-32b"]
    reasoning_field = "reasoning"
    always_usage = False
    unsupported = ("store", "prompt_cache_key", "logit_bias", "safety_identifier", "verbosity")

    def report(self, fault, body):
        if fault.kind == "unknown":
            where, key = path_dots(fault.path[:-1]), fault.path[-1]
            if fault.path[0] == "messages":
                role = body["messages"][fault.path[1]]["role"]
                self.refuse(f"'{where}' : for 'role:{role}' the following must be satisfied[('{where}' : property '{key}' is unsupported)]")
            self.refuse(f"property '{key}' is unsupported")
        super().report(fault, body)

    def refuse_key(self, key, body):
        self.refuse(f"property '{key}' is unsupported" + (", did you mean 'stop'?" if key == "store" else ""))

    def thinks(self, request, body):
        return body.get("reasoning_effort") != "none"

    def check_tools(self, body):
        super().check_tools(body)
        allowed = ("low", "medium", "high") if "gpt-oss" in body["model"] else ("none", "default")
        if body.get("reasoning_effort") is not None and body["reasoning_effort"] not in allowed:
            self.refuse(f"`reasoning_effort` must be one of {', '.join(f'`{each}`' for each in allowed)}", "reasoning_effort")

    def overflow(self, window, tokens, answer):
        return "Please reduce the length of the messages or completion."

    def listed(self, scope, name):
        return {"active": True, "context_window": scope.window(name, self.window), "max_completion_tokens": scope.max_output(name, 65_536)}


class Xai(Person):
    name = "xai"
    walker = walker({"reasoning_content": str}, {"reasoning_effort": str, "search_parameters": dict, "deferred": bool})
    window = 500_000
    models = ["grok-4.5"]
    reasoning_field = "reasoning_content"
    always_usage = True
    unsupported = ("store", "logit_bias")

    def thinks(self, request, body):
        return True

    def check_tools(self, body):
        super().check_tools(body)
        for key in ("presence_penalty", "frequency_penalty", "stop"):
            if body.get(key):
                self.refuse(f"Model {body['model']} does not support parameter {key}.", key)
        if body.get("reasoning_effort") not in (None, "low", "medium", "high"):
            self.refuse(f"Invalid reasoning effort: {body['reasoning_effort']}", "reasoning_effort")


def path_dots(path):
    return ".".join(str(step) for step in path)


class OpenRouter(Person):
    name = "openrouter"
    walker = walker(
        {"reasoning": str, "reasoning_details": list},
        {"reasoning": dict, "provider": dict, "models": list, "transforms": list, "plugins": list, "usage": dict, "top_k": int, "min_p": float, "route": str},
        ChatCompletionContentPartTextParam={"cache_control": dict},
    )
    window, counts_output = 1_000_000, True
    models = ["anthropic/claude-sonnet-5.5", "openai/gpt-6-sol"]
    reasoning_field = "reasoning_details"
    always_usage = True
    unsupported = ("store",)

    def refuse(self, message, param=None, code=None, status=400, kind=None):
        raise Refused(status, {"error": {"message": message, "code": status, "metadata": {"provider_name": "Strict"}}})

    def report(self, fault, body):
        self.refuse(f"{path_text(fault.path)}: {fault.kind}")

    def thinks(self, request, body):
        return (body.get("reasoning") or {}).get("enabled") is not False and (body.get("reasoning") or {}).get("effort") != "none"

    def marks(self, body):
        """The messages that end with a mark for Anthropic's cache, which keeps nothing else."""
        if not body["model"].startswith("anthropic/"):
            return None
        parts = lambda message: message["content"] if isinstance(message.get("content"), list) else []
        return [at for at, message in enumerate(body["messages"]) if any(part.get("cache_control") for part in parts(message))]

    def check_parts(self, parts, at):
        for part in parts:
            if part.get("cache_control") and not (part.get("text") or "").strip():
                self.refuse(f"messages.{at}.content.0.text: cache_control cannot be set for empty text blocks")
        return super().check_parts(parts, at)

    def check_order(self, messages):
        count = sum(bool(part.get("cache_control")) for message in messages if isinstance(message.get("content"), list) for part in message["content"])
        if count > 4:
            self.refuse(f"A maximum of 4 blocks with cache_control may be provided. Found {count}.")

    def check_assistant(self, scope, request, body, message, at):
        super().check_assistant(scope, request, body, message, at)
        details = message.get("reasoning_details")
        for index, each in enumerate(details or []):
            if each.get("type") == "reasoning.encrypted" and not isinstance(each.get("data"), str):
                self.refuse(f"Invalid input: expected string, received undefined at messages[{at}].reasoning_details[{index}].data")
        for call in message.get("tool_calls") or []:
            issued = scope.issued.get(call["id"])
            if issued is None:
                continue
            if details is None:
                request.warn(f"messages[{at}]: reasoning_details are not sent back")
            elif details != issued:
                self.refuse(f"messages.{at}.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response.")

    def check(self, scope, request, body):
        has_images = super().check(scope, request, body)
        for at, message in enumerate(body["messages"]):
            for index, each in enumerate(message.get("reasoning_details") or []):
                bound = scope.issued.get(each.get("signature"))
                if bound is not None and bound != self.binding(body, body["messages"][:at]):
                    self.refuse(f"messages.{at}.content.{index}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\".")
        return has_images

    def binding(self, body, messages):
        """What Claude's thinking after these messages is bound to: the instructions, tools and messages before it, with the
        thinking in them. Nothing for other models."""
        if not body["model"].startswith("anthropic/"):
            return None
        plain = [{name: value for name, value in message.items() if name != "reasoning"} for message in messages]
        return digest(body.get("tools") or [], without(plain, "cache_control"))

    def overflow(self, window, tokens, answer):
        return f'This endpoint\'s maximum context length is {window} tokens. However, you requested about {tokens + answer} tokens ({tokens} of text input, {answer} in the output). Please reduce the length of either one, or use the "middle-out" transform to compress your prompt automatically.'

    def listed(self, scope, name):
        limits = {"context_length": scope.window(name, self.window), "max_completion_tokens": scope.max_output(name, 128_000), "is_moderated": False}
        pricing = {"prompt": "0.000002", "completion": "0.00001", "input_cache_read": "0.0000002"}
        return {"context_length": limits["context_length"], "top_provider": limits, "pricing": pricing, "architecture": {"input_modalities": ["text", "image"]}, "supported_parameters": ["tools", "reasoning"]}


class Vllm(Person):
    name = "vllm"
    needs_key = False
    walker = walker(
        {"reasoning": str, "reasoning_content": str},
        {"chat_template_kwargs": dict, "top_k": int, "min_p": float, "repetition_penalty": float, "reasoning_effort": str, "include_reasoning": bool},
        ChatCompletionToolMessageParam={"name": str},
    )
    window, counts_output = 131_072, True
    models = ["Qwen/Qwen3-32B"]
    reasoning_field = "reasoning"
    cache_minimum, cache_step = 16, 16

    def refuse(self, message, param=None, code=None, status=400, kind="BadRequestError"):
        raise Refused(status, {"error": {"message": message, "type": kind, "param": param, "code": status}})

    def check_types(self, kind, body):
        # vLLM ignores unknown fields.
        faults = [fault for fault in self.walker.check(kind, body) if fault.kind != "unknown"]
        if faults:
            self.report(faults[0], body)

    def thinks(self, request, body):
        return (body.get("chat_template_kwargs") or {}).get("enable_thinking") is not False

    def check_tools(self, body):
        if body.get("tools") == []:
            self.refuse("`tools` must not be an empty array.")

    def refuse_arguments(self, call, where):
        self.refuse("Expecting value: line 1 column 1 (char 0)")

    def overflow(self, window, tokens, answer):
        return f"This model's maximum context length is {window} tokens. However, you requested {answer} output tokens and your prompt contains at least {tokens} input tokens, for a total of at least {tokens + answer} tokens. Please reduce the length of the input prompt or the number of requested output tokens."

    def listed(self, scope, name):
        return {"max_model_len": scope.window(name, self.window)}


PERSONS = {person.name: person for person in (Person(), DeepSeek(), Kimi(), Mistral(), Groq(), OpenRouter(), Vllm(), Xai())}


def named(name):
    return PERSONS.get(name) or PERSONS["openai"]
