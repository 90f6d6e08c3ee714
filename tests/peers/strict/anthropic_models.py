"""What each of Anthropic's models takes, as documented in November 2026."""

import dataclasses

ALL_EFFORTS = ("low", "medium", "high", "xhigh", "max")


@dataclasses.dataclass(frozen=True)
class Claude:
    window: int = 1_000_000
    max_output: int = 128_000
    # Values of `thinking.type`.
    thinking: tuple = ("adaptive",)
    # Whether the model thinks when the request does not say.
    on_by_default: bool = True
    efforts: tuple = ALL_EFFORTS
    sampling: bool = False
    forced_tools: bool = True
    prefill: bool = False
    # Whether thinking blocks are bound to the conversation before them.
    bound: bool = False
    display: str = "omitted"
    cache_minimum: int = 512
    # Whether input + max_tokens may exceed the window.
    soft_window: bool = True
    # A thinking type that is refused together with the two highest efforts.
    low_effort_only: tuple = ()
    system_messages: bool = True


NEW = Claude(forced_tools=False, bound=True)
OLD = Claude(window=200_000, max_output=64_000, thinking=("enabled", "disabled"), on_by_default=False, efforts=(), sampling=True, prefill=True, display="summarized", system_messages=False)
MODELS = {
    "claude-fable-5-2": NEW,
    "claude-mythos-5-2": NEW,
    "claude-fable-5-1": NEW,
    "claude-mythos-5-1": NEW,
    "claude-fable-5": Claude(),
    "claude-mythos-5": Claude(),
    "claude-opus-5-5": NEW,
    "claude-sonnet-5-5": dataclasses.replace(NEW, thinking=("adaptive", "between_tools"), low_effort_only=("between_tools",)),
    "claude-haiku-5-5": Claude(thinking=("adaptive", "disabled"), bound=True, low_effort_only=("disabled",)),
    "claude-opus-5": Claude(thinking=("adaptive", "disabled"), low_effort_only=("disabled",)),
    "claude-sonnet-5": Claude(thinking=("adaptive", "disabled"), cache_minimum=1024, system_messages=False),
    "claude-opus-4-8": Claude(thinking=("adaptive", "disabled"), on_by_default=False, cache_minimum=1024),
    "claude-opus-4-7": Claude(thinking=("adaptive", "disabled"), on_by_default=False, cache_minimum=2048, system_messages=False),
    "claude-opus-4-6": Claude(thinking=("adaptive", "enabled", "disabled"), on_by_default=False, efforts=("low", "medium", "high", "max"), sampling=True, display="summarized", cache_minimum=4096, system_messages=False),
    "claude-sonnet-4-6": Claude(thinking=("adaptive", "enabled", "disabled"), on_by_default=False, efforts=("low", "medium", "high", "max"), sampling=True, display="summarized", cache_minimum=1024, system_messages=False),
    "claude-opus-4-5": dataclasses.replace(OLD, efforts=("low", "medium", "high"), cache_minimum=4096),
    "claude-sonnet-4-5": dataclasses.replace(OLD, cache_minimum=1024),
    "claude-haiku-4-5": dataclasses.replace(OLD, cache_minimum=4096),
}
DATED = {"claude-opus-4-5-20251101": "claude-opus-4-5", "claude-sonnet-4-5-20250929": "claude-sonnet-4-5", "claude-haiku-4-5-20251001": "claude-haiku-4-5"}


def claude(model):
    return MODELS.get(DATED.get(model, model))


def reads(model, author):
    """Whether `model` can read the thinking of `author`; it is dropped silently otherwise."""
    model, author = DATED.get(model, model), DATED.get(author, author)
    if model == author:
        return True
    top = {"claude-fable-5-2", "claude-mythos-5-2"}
    if author in top or model in top:
        return {model, author} <= top
    if author == "claude-sonnet-5-5" or model == "claude-haiku-5-5":
        return False
    is_fable = lambda name: "fable" in name or "mythos" in name
    if is_fable(author):
        return is_fable(model)
    if author == "claude-opus-5-5":
        return model in ("claude-fable-5-1", "claude-mythos-5-1")
    return True
