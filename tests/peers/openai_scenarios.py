"""What the scenarios of `openai_clients.py` share: where the server is, what is expected, and the list of them."""

import base64
import os
import struct
import sys
import zlib

# These two would ask servers of their own.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

URL, KEY, ONLY = sys.argv[1], sys.argv[2], sys.argv[3:]
# The SDKs' own variables, for the clients that are usually configured by them.
os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"] = URL, KEY

import pydantic

MODEL = "assistant"
SCENARIOS = []


class Report(pydantic.BaseModel):
    city: str
    degrees: int
    notes: list[str]


REPORT = Report(city="Oslo", degrees=7, notes=["some words"] * 2)


def scenario(function):
    SCENARIOS.append(function)
    return function


def each(*cases):
    """A scenario as it is, and across silence and hiccups of the model: what is added to its name is said to the model."""

    def register(function):
        for case in cases:
            def run(case=case):
                return function(case)

            run.__name__ = f"{function.__name__}__{case}" if case else function.__name__
            SCENARIOS.append(run)
        return function

    return register


ALL = ("", "silence", "hiccup", "cut")


def same(found, wanted):
    if found != wanted:
        raise AssertionError(f"{found!r} instead of {wanted!r}")


def has(found, *wanted):
    for each in wanted:
        if each not in (found or ""):
            raise AssertionError(f"{found!r} has no {each!r}")


def ends(found, wanted):
    """What came at last is right; before it may stand what was seen of an attempt that broke off."""
    if not (found or "").endswith(wanted):
        raise AssertionError(f"{found!r} does not end in {wanted!r}")


def counted(tokens, case, wanted=30):
    """What was used; an attempt that broke off was used too, and may be counted."""
    if not (tokens == wanted or case == "cut" and tokens > wanted):
        raise AssertionError(f"{tokens} tokens instead of {wanted}")


def png():
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"\0\xff\0\0")) + chunk(b"IEND", b"")


PNG = png()
PNG_URL = "data:image/png;base64," + base64.b64encode(PNG).decode()
SEEN = f"I see a PNG of {len(PNG)} bytes"


def function_tool(name, strict=None):
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": False}
    function = {"name": name, "description": f"Tells the {name}", "parameters": schema}
    return {"type": "function", "function": function if strict is None else {**function, "strict": strict}}


WEATHER, PEOPLE = function_tool("weather"), function_tool("people")
BOTH = "The tools said: weather of Oslo; weather of Rome"


def user(text):
    return [{"role": "user", "content": text}]
