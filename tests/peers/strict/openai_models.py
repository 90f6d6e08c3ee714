"""What each of OpenAI's models takes, as documented in November 2026, and OpenAI's rules for tools and images."""

import dataclasses
import re

from . import media
from .core import Refused

NONE_TO_MAX = ("none", "low", "medium", "high", "xhigh", "max")
NONE_TO_XHIGH = NONE_TO_MAX[:-1]
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]+")
IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")


@dataclasses.dataclass(frozen=True)
class Gpt:
    window: int = 1_050_000
    max_input: int = 922_000
    max_output: int = 128_000
    efforts: tuple = NONE_TO_MAX
    default_effort: str = "medium"
    # What chat completions say about function tools: nothing, "effort" where reasoning must be off, "never".
    chat_tools: str = "effort"
    pro_mode: bool = False
    cache_options: bool = False

    @property
    def reasons(self):
        return bool(self.efforts)


SOL = Gpt(pro_mode=True, cache_options=True)
MODELS = {
    "gpt-6-astra": dataclasses.replace(SOL, efforts=NONE_TO_MAX[1:], chat_tools="never"),
    "gpt-6.1-sol": dataclasses.replace(SOL, efforts=NONE_TO_MAX[1:], chat_tools="never"),
    "gpt-6.1-terra": SOL,
    "gpt-6-sol": SOL,
    "gpt-6-luna": SOL,
    "gpt-5.6": SOL,
    "gpt-5.6-sol": SOL,
    "gpt-5.6-terra": SOL,
    "gpt-5.6-luna": SOL,
    "gpt-5.5": Gpt(efforts=NONE_TO_XHIGH),
    "gpt-5.5-pro": Gpt(efforts=("medium", "high", "xhigh"), default_effort="high", chat_tools="never"),
    "gpt-5.4": Gpt(efforts=NONE_TO_XHIGH, default_effort="none"),
    "gpt-5.4-mini": Gpt(400_000, 272_000, efforts=NONE_TO_XHIGH, default_effort="none"),
    "gpt-5.4-nano": Gpt(400_000, 272_000, efforts=NONE_TO_XHIGH, default_effort="none"),
    "gpt-5.2": Gpt(400_000, 272_000, efforts=NONE_TO_XHIGH, default_effort="none"),
    "gpt-5.1": Gpt(400_000, 272_000, efforts=NONE_TO_MAX[:4], default_effort="none", chat_tools=""),
    "gpt-5": Gpt(400_000, 272_000, efforts=("minimal", "low", "medium", "high"), chat_tools=""),
    "gpt-5-mini": Gpt(400_000, 272_000, efforts=("minimal", "low", "medium", "high"), chat_tools=""),
    "gpt-5-nano": Gpt(400_000, 272_000, efforts=("minimal", "low", "medium", "high"), chat_tools=""),
    "gpt-5-pro": Gpt(400_000, 272_000, efforts=("high",), default_effort="high", chat_tools=""),
    "gpt-4.1": Gpt(1_047_576, 1_047_576, 32_768, (), "", ""),
    "gpt-4.1-mini": Gpt(1_047_576, 1_047_576, 32_768, (), "", ""),
    "gpt-4o": Gpt(128_000, 128_000, 16_384, (), "", ""),
    "gpt-4o-mini": Gpt(128_000, 128_000, 16_384, (), "", ""),
    "o3": Gpt(200_000, 200_000, 100_000, ("low", "medium", "high"), chat_tools=""),
}


def gpt(model):
    """A model by its name, with or without a date."""
    return MODELS.get(re.sub(r"-20\d\d-\d\d-\d\d$", "", model))


def refuse(message, param=None, code=None, status=400, kind="invalid_request_error"):
    raise Refused(status, {"error": {"message": message, "type": kind, "param": param, "code": code}})


def quoted(values):
    listed = [f"'{each}'" for each in values]
    return listed[0] if len(listed) == 1 else ", ".join(listed[:-1]) + ", and " + listed[-1] if len(listed) > 2 else " and ".join(listed)


def path_text(path):
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


NAMES = {"string": "a string", "object": "an object", "array": "an array", "integer": "an integer", "number": "a decimal", "boolean": "a boolean", "null": "null"}


def named(value):
    for kind, name in ((bool, "a boolean"), (str, "a string"), (int, "an integer"), (float, "a decimal"), (list, "an array"), (dict, "an object")):
        if isinstance(value, kind):
            return name
    return "null"


def report(fault):
    """Refuses a body whose types are wrong."""
    where = path_text(fault.path)
    if fault.kind == "unknown":
        refuse(f"Unknown parameter: '{where}'.", where, "unknown_parameter")
    if fault.kind == "missing":
        refuse(f"Missing required parameter: '{where}'.", where, "missing_required_parameter")
    if fault.kind == "value":
        refuse(f"Invalid value: '{fault.value}'. Supported values are: {quoted(fault.expected)}.", where, "invalid_value")
    refuse(f"Invalid type for '{where}': expected {NAMES.get(fault.expected, fault.expected)}, but got {named(fault.value)} instead.", where, "invalid_type")


def check_length(text, most, where):
    if len(text) > most:
        refuse(f"Invalid '{where}': string too long. Expected a string with maximum length {most}, but got a string with length {len(text)} instead.", where, "string_above_max_length")
    if not text:
        refuse(f"Invalid '{where}': empty string. Expected a string with minimum length 1, but got an empty string instead.", where, "empty_string")


def check_tool(name, schema, strict, where, most):
    check_length(name, most, f"{where}.name")
    if not TOOL_NAME.fullmatch(name):
        refuse(f"Invalid '{where}.name': string does not match pattern. Expected a string that matches the pattern '^[a-zA-Z0-9_-]+$'.", f"{where}.name", "invalid_value")
    if schema is None:
        return
    bad = lambda text: refuse(f"Invalid schema for function '{name}': {text}", f"{where}.parameters", "invalid_function_parameters")
    if schema.get("type") != "object":
        found = schema.get("type")
        bad(f"schema must be a JSON Schema of 'type: \"object\"', got 'type: {'null' if found is None else chr(34) + str(found) + chr(34)}'.")
    if any(key in schema for key in ("oneOf", "anyOf", "allOf", "enum", "not")):
        bad("schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.")
    if "properties" not in schema:
        bad("In context=(), object schema missing properties.")
    check_schema(schema, (), bad, strict)


def check_schema(schema, context, bad, strict):
    if isinstance(schema, bool):
        bad(f"In context={context}, schema must be an object, not a boolean.")
    if not isinstance(schema, dict):
        return
    kinds = schema.get("type")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if "array" in kinds and "items" not in schema and "prefixItems" not in schema:
        at = (*context, "type", str(kinds.index("array"))) if isinstance(schema["type"], list) else context
        bad(f"In context={at}, array schema missing items.")
    properties = schema.get("properties")
    if properties is not None and not isinstance(properties, dict):
        bad(f"In context={context}, {properties!r} is not of type 'object'.")
    if strict:
        for key in ("allOf", "oneOf", "not", "if", "patternProperties", "dependentRequired", "dependentSchemas"):
            if key in schema:
                bad(f"In context={context}, '{key}' is not permitted.")
        if "object" in kinds:
            if schema.get("additionalProperties") is not False:
                bad(f"In context={context}, 'additionalProperties' is required to be supplied and to be false.")
            missing = [key for key in properties or {} if key not in schema.get("required", [])]
            if missing:
                bad(f"In context={context}, 'required' is required to be supplied and to be an array including every key in properties. Missing '{missing[0]}'.")
    for key, each in (properties or {}).items():
        check_schema(each, (*context, "properties", key), bad, strict)
    for key in ("$defs", "definitions"):
        for name, each in (schema.get(key) or {}).items():
            check_schema(each, (*context, key, name), bad, strict)
    for key in ("anyOf", "oneOf", "allOf"):
        for at, each in enumerate(schema.get(key) or []):
            check_schema(each, (*context, key, str(at)), bad, strict)
    if isinstance(schema.get("items"), (dict, bool)):
        if not isinstance(schema["items"], bool):
            check_schema(schema["items"], (*context, "items"), bad, strict)


def check_image(url, where):
    if url.startswith(("https://", "http://")):
        return
    found = media.data_url(url)
    if found is None:
        refuse(f"Invalid '{where}'. Expected a valid URL, but got a value with an invalid format.", where, "invalid_value")
    data = media.decode(found[1])
    if data is None:
        refuse("Invalid base64 image_url.", where, "invalid_base64_image")
    # The declared type is only a hint; the bytes count.
    if media.kind(data) not in IMAGES:
        refuse("You uploaded an unsupported image. Please make sure your image has of one the following formats: ['png', 'jpeg', 'gif', 'webp'].", where, "invalid_image_format")


def check_effort(model, name, effort, where, efforts=None):
    efforts = model.efforts if efforts is None else efforts
    if effort is None:
        return
    if not model.reasons:
        refuse(f"Unsupported parameter: '{where}' is not supported with this model.", where, "unsupported_parameter")
    if effort not in efforts:
        refuse(f"Unsupported value: '{effort}' is not supported with the '{name}' model. Supported values are: {quoted(efforts)}.", where, "unsupported_value")


def takes_sampling(model, effort):
    return not model.reasons or (effort or model.default_effort) == "none"


def check_metadata(metadata):
    if len(metadata or {}) > 16:
        refuse(f"Invalid 'metadata': object has too many properties. Expected an object with at most 16 properties, but got {len(metadata)}.", "metadata", "object_above_max_properties")
    for key, value in (metadata or {}).items():
        check_length(key, 64, f"metadata.{key}")
        if len(value) > 512:
            check_length(value, 512, f"metadata.{key}")
