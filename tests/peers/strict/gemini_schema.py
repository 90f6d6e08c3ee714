"""Gemini's rules for the schemas of functions. One bad declaration fails the whole request."""

import re

ALLOWED = {
    "type", "format", "title", "description", "nullable", "default", "example", "enum", "items", "minItems", "maxItems", "minLength",
    "maxLength", "minProperties", "maxProperties", "minimum", "maximum", "pattern", "properties", "required", "propertyOrdering", "anyOf",
}
KINDS = {"STRING", "NUMBER", "INTEGER", "BOOLEAN", "ARRAY", "OBJECT", "NULL", "TYPE_UNSPECIFIED"}
PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def check_declarations(body, refuse, unknown):
    tools = body.get("tools")
    for at, tool in enumerate(tools if isinstance(tools, list) else []):
        declarations = tool.get("functionDeclarations") if isinstance(tool, dict) else None
        for index, each in enumerate(declarations if isinstance(declarations, list) else []):
            if not isinstance(each, dict):
                continue
            path = ("tools", at, "function_declarations", index)
            if isinstance(each.get("parameters"), dict):
                where = f"GenerateContentRequest.tools[{at}].function_declarations[{index}].parameters"
                check(each["parameters"], (*path, "parameters"), where, refuse, unknown)
            if each.get("parametersJsonSchema") is not None:
                check_json_schema(each["parametersJsonSchema"], each.get("name"), refuse)
    config = body.get("generationConfig")
    if isinstance(config, dict) and isinstance(config.get("responseSchema"), dict):
        check(config["responseSchema"], ("generation_config", "response_schema"), "GenerateContentRequest.generation_config.response_schema", refuse, unknown)


def check(schema, path, where, refuse, unknown):
    """The subset of OpenAPI that `parameters` takes."""
    from .gemini import path_text

    for key in schema:
        if key not in ALLOWED:
            unknown(key, path)
    kind = schema.get("type")
    if isinstance(kind, list):
        refuse(f"Invalid JSON payload received. Unknown name \"type\" at '{path_text(path)}': Proto field is not repeating, cannot start list.")
    if kind is not None and str(kind).upper() not in KINDS:
        refuse(f"Invalid value at '{path_text(path)}.type' (type.googleapis.com/google.ai.generativelanguage.v1beta.Type), \"{kind}\"")
    kind = str(kind).upper() if kind else None
    if "anyOf" in schema and kind:
        refuse(f"{where}: schema specified other fields alongside any_of. When using any_of, it must be the only field set.")
    for at, value in enumerate(schema.get("enum") or []):
        if not isinstance(value, str):
            refuse(f"Invalid value at '{path_text(path)}.enum[{at}]' (TYPE_STRING), {value}")
        if not value:
            refuse(f"{where}.enum[{at}]: cannot be empty")
    if schema.get("enum") and kind != "STRING":
        refuse(f"{where}.enum: only allowed for STRING type")
    if kind == "ARRAY" and not isinstance(schema.get("items"), dict):
        refuse(f"{where}.items: missing field.")
    properties = schema.get("properties")
    if kind == "OBJECT" and not properties:
        refuse(f"{where}.properties: should be non-empty for OBJECT type")
    if properties is not None and not isinstance(properties, dict):
        refuse(f"Invalid JSON payload received. '{path_text(path)}.properties' must be an object.")
    if properties and kind not in ("OBJECT", None):
        refuse(f"{where}.properties: only allowed for OBJECT type")
    for at, name in enumerate(schema.get("required") or []):
        if name not in (properties or {}):
            refuse(f"{where}.required[{at}]: property is not defined")
    if kind == "STRING" and schema.get("format") not in (None, "enum", "date-time", "date", "email", "byte", "password", "uuid", "time"):
        refuse(f"{where}.format: only 'enum' and 'date-time' are supported for STRING type")
    for name, each in (properties or {}).items():
        if not PARAMETER.fullmatch(name):
            refuse(f"{where}.properties[{name}]: Invalid parameter name. Must start with a letter or an underscore.")
        if not isinstance(each, dict):
            refuse(f"Invalid value at '{path_text(path)}.properties[{name}]' (type.googleapis.com/google.ai.generativelanguage.v1beta.Schema), {str(each).lower()}")
        check(each, (*path, "properties", name), f"{where}.properties[{name}]", refuse, unknown)
    if isinstance(schema.get("items"), dict):
        check(schema["items"], (*path, "items"), f"{where}.items", refuse, unknown)
    for at, each in enumerate(schema.get("anyOf") or []):
        check(each, (*path, "any_of", at), f"{where}.any_of[{at}]", refuse, unknown)


def check_json_schema(schema, name, refuse):
    """`parametersJsonSchema` takes JSON Schema; keywords it does not know are ignored."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        refuse(f"Function `{name}`: parameters_json_schema must describe an object: its type must be \"object\".")
    check_references(schema, schema, name, refuse)


def check_references(node, root, name, refuse):
    if isinstance(node, list):
        for each in node:
            check_references(each, root, name, refuse)
    if not isinstance(node, dict):
        return
    reference = node.get("$ref")
    if isinstance(reference, str):
        others = [key for key in node if not key.startswith("$")]
        if others:
            refuse(f"Function `{name}`: a schema with $ref may only have keys that start with $, but has {others[0]!r}.")
        target = root
        for step in reference.removeprefix("#").strip("/").split("/") if reference != "#" else []:
            target = target.get(step) if isinstance(target, dict) else None
        if not reference.startswith("#") or target is None:
            refuse(f"Function `{name}`: reference {reference!r} is not defined.")
    for each in node.values():
        check_references(each, root, name, refuse)
