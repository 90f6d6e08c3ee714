"""What a fake answers: the pieces of a script's step, or those of a small agent that calls the tools it is given.

A piece is one of {"thinking": text}, {"text": text}, {"call": {"name", "input", "id"?}}, {"refuse": text},
{"finish": reason}, {"error": {"status"?, "type"?, "code"?, "message"?, "body"?}}, {"ping": n}, {"pause_ms": n},
{"usage": {...}}, {"image_refused": true}, {"cut": true} and {"raw": one event as it shall be sent}.
"""

MAX_DEPTH = 6


def sample(schema, name="value", root=None, depth=0):
    """A value that fits a schema, as far as simple schemas go."""
    root = schema if root is None else root
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return name
    for key in ("const", "default", "example"):
        if key in schema:
            return schema[key]
    if schema.get("enum"):
        return schema["enum"][0]
    reference = schema.get("$ref") or schema.get("ref")
    if isinstance(reference, str) and reference.startswith("#/"):
        target = root
        for step in reference[2:].split("/"):
            target = target.get(step, {}) if isinstance(target, dict) else {}
        return sample(target, name, root, depth + 1)
    for key in ("anyOf", "oneOf", "allOf"):
        if schema.get(key) and "properties" not in schema:
            return sample(schema[key][0], name, root, depth + 1)
    kind = schema.get("type")
    kind = next((each for each in kind if each != "null"), "null") if isinstance(kind, list) else kind
    kind = kind.lower() if isinstance(kind, str) else ("object" if "properties" in schema else "string")
    if kind == "object":
        properties = schema.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        return {key: sample(each, key, root, depth + 1) for key, each in properties.items()}
    if kind == "array":
        items = schema.get("items")
        return [sample(items, name, root, depth + 1)] if isinstance(items, dict) else []
    minimum = schema.get("minimum")
    number = minimum if isinstance(minimum, (int, float)) else 1
    return {"integer": int(number), "number": number + 0.5, "boolean": True, "null": None}.get(kind, f"some {name}")


def default_pieces(tools, steps_done, steps, thinks):
    """One answer of the default agent: `tools` are (name, schema)."""
    think = (lambda text: [{"thinking": text}]) if thinks else (lambda text: [])
    if not tools or steps_done >= steps:
        return think("I have seen enough to answer.") + [{"text": f"Done after {steps_done} steps."}]
    pieces = think(f"Step {steps_done + 1}: I need to look something up first.")
    pieces.append({"text": f"Let me look (step {steps_done + 1})."})
    # Every second step makes two calls at once.
    for at in range(1 + steps_done % 2):
        name, schema = tools[(steps_done + at) % len(tools)]
        pieces += think(f"Call {at + 1} goes to {name}.")
        value = sample(schema)
        pieces.append({"call": {"name": name, "input": value if isinstance(value, dict) else {}}})
    return pieces


def pieces_of(scope, vendor, model, tools, steps_done, thinks, forced=False):
    """The pieces of the next answer. `forced` makes a call even when the agent is done."""
    scripted = scope.next_step(vendor, model)
    if scripted is not None:
        return scripted
    steps = scope.settings["steps"]
    return default_pieces(tools, min(steps_done, steps - 1) if forced and tools and steps else steps_done, steps, thinks)


def spoken_tokens(pieces):
    """(all output tokens, those of thinking)."""
    from .core import token_count

    thinking = sum(token_count(piece["thinking"]) for piece in pieces if "thinking" in piece)
    other = sum(token_count(piece[key]) for piece in pieces for key in ("text", "refuse", "call") if key in piece)
    return max(1, thinking + other), thinking
