"""The rules for Anthropic's `messages`: order, tool calls and results, thinking and its binding, caching, images."""

import dataclasses
import re

from . import media
from .core import compact, digest, token_count, unseal, without

ID = re.compile(r"[a-zA-Z0-9_-]+")
THINKING = ("thinking", "redacted_thinking")
IMAGE_LIMIT = 10 << 20
LOOKBACK = 20


def refuse(message, **rest):
    from .anthropic import refuse

    refuse(message, **rest)


@dataclasses.dataclass
class History:
    # Answers with calls since the last message of the user's own.
    steps: int
    has_images: bool
    # The conversation in one form, thinking included, for the signatures of what comes.
    messages: list
    last_thinking: str
    dropped: list
    usage: dict


def blocks_of(message):
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def merged(messages):
    """The messages in one form: blocks only, neighbours of one role joined. Each block keeps its path."""
    result = []
    for at, message in enumerate(messages):
        blocks = [(block, f"messages.{at}.content.{part}") for part, block in enumerate(blocks_of(message))]
        if result and result[-1][0] == message["role"]:
            result[-1][1].extend(blocks)
        else:
            result.append((message["role"], blocks, at))
    return result


def check(scope, request, model, has_binding_header):
    body = request.body
    messages = body["messages"]
    if not messages:
        refuse("messages: at least one message is required")
    check_blocks(messages, model, body, request.headers["anthropic-version"])
    turns = merged(messages)
    if turns[0][0] != "user":
        refuse('messages: first message must use the "user" role')
    check_system_messages(turns, model)
    if turns[-1][0] == "assistant":
        if not model.prefill:
            refuse("This model does not support assistant message prefill. The conversation must end with a user message.")
        if (body.get("thinking") or {}).get("type") in ("enabled", "adaptive"):
            refuse("messages: the final message must use the \"user\" role when thinking is enabled")
        last = turns[-1][1][-1][0]
        if last["type"] == "text" and last["text"] != last["text"].rstrip():
            refuse("messages: final assistant content cannot end with trailing whitespace")
    check_calls(turns)
    check_caching(body)
    dropped, last_thinking = check_signatures(request, turns, model, has_binding_header)
    check_latest(scope, request, turns, body, model)
    usage = cache(scope, request, turns, model)
    steps, images = 0, any(block["type"] == "image" or any(part.get("type") == "image" for part in result_parts(block)) for _, blocks, _ in turns for block, _ in blocks)
    for role, blocks, _ in reversed(turns):
        kinds = [block["type"] for block, _ in blocks]
        if role == "user" and "tool_result" not in kinds:
            break
        steps += role == "assistant" and "tool_use" in kinds
    plain = [[role, [block for block, _ in blocks]] for role, blocks, _ in turns]
    return History(steps, images, plain, last_thinking, dropped, usage)


def result_parts(block):
    content = block.get("content") if block.get("type") == "tool_result" else None
    return content if isinstance(content, list) else []


def check_blocks(messages, model, body, version):
    last = len(messages) - 1
    images = 0
    for at, message in enumerate(messages):
        role, blocks = message["role"], blocks_of(message)
        is_final_assistant = at == last and role == "assistant"
        if (not blocks or message["content"] == "") and not is_final_assistant:
            refuse(f"messages.{at}: all messages must have non-empty content except for the optional final assistant message")
        for part, block in enumerate(blocks):
            where = f"messages.{at}.content.{part}"
            kind = block["type"]
            if kind == "text":
                if not block["text"]:
                    if block.get("cache_control"):
                        refuse(f"{where}.text: cache_control cannot be set for empty text blocks")
                    refuse("messages: text content blocks must be non-empty")
                if not block["text"].strip():
                    refuse("messages: text content blocks must contain non-whitespace text")
                if version == "2026-10-21" and role == "user" and block.get("citations"):
                    refuse(f"{where}.citations: Extra inputs are not permitted")
            if role == "assistant" and kind in ("image", "tool_result", "search_result") or role == "assistant" and kind == "document" and version == "2026-10-21":
                refuse(f"{where}: `{kind}` blocks are not permitted in assistant messages")
            if role == "user" and kind in ("tool_use", *THINKING):
                refuse(f"{where}: `{kind}` blocks can only be in `assistant` messages")
            for field in ("id", "tool_use_id"):
                if field in block and kind in ("tool_use", "tool_result") and not ID.fullmatch(block[field]):
                    refuse(f"{where}.{kind}.{field}: String should match pattern '^[a-zA-Z0-9_-]+$'")
            if kind == "tool_use" and not re.fullmatch(r"[a-zA-Z0-9_-]{1,200}", block["name"]):
                refuse(f"{where}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,200}}$'")
            if kind == "tool_result" and block.get("is_error") and any(each["type"] != "text" for each in result_parts(block)):
                refuse(f'{where}.tool_result: all content must be type "text" if `is_error` is true')
            for inner, each in enumerate([block, *result_parts(block)]):
                place = where if inner == 0 else f"{where}.tool_result.content.{inner - 1}"
                if each["type"] == "text" and inner and not each["text"]:
                    refuse("messages: text content blocks must be non-empty")
                if each["type"] in ("image", "document"):
                    images += each["type"] == "image"
                    check_source(each, place)
    limit = 600 if model.window > 200_000 else 100
    if images > limit:
        refuse(f"messages: too many images: {images} > {limit}")


def check_source(block, where):
    source = block["source"]
    where = f"{where}.{block['type']}.source.base64"
    if source["type"] != "base64":
        return
    if block["type"] == "image" and len(source["data"]) > IMAGE_LIMIT:
        refuse(f"{where}: image exceeds 10 MB maximum: {len(source['data'])} bytes > {IMAGE_LIMIT} bytes")
    data = media.decode(source["data"])
    if data is None:
        refuse(f"{where}.data: Invalid base64 data")
    if block["type"] == "document":
        if media.kind(data) != "application/pdf":
            refuse(f"{where}.data: The PDF specified was not valid.")
        return
    actual = media.kind(data)
    if actual is None or not actual.startswith("image/"):
        refuse(f"{where}.data: Could not process image")
    if actual != source["media_type"]:
        refuse(f"{where}.data: The image was specified using the {source['media_type']} media type, but the image appears to be a {actual} image")


def check_system_messages(turns, model):
    for at, (role, _, index) in enumerate(turns):
        if role != "system":
            continue
        if not model.system_messages:
            refuse(f'messages.{index}: Unexpected role "system". This model takes no system messages inside the conversation.')
        before, after = turns[at - 1][0] if at else None, turns[at + 1][0] if at + 1 < len(turns) else None
        if before != "user" or after not in (None, "assistant"):
            refuse(f'messages.{index}: a "system" message must follow a "user" turn, and be last or be followed by an "assistant" turn')


def check_calls(turns):
    seen = set()
    for at, (role, blocks, index) in enumerate(turns):
        if role == "assistant":
            uses = [block["id"] for block, _ in blocks if block["type"] == "tool_use"]
            for block, where in blocks:
                if block["type"] == "tool_use":
                    if block["id"] in seen:
                        refuse(f"{where}: `tool_use` ids must be unique")
                    seen.add(block["id"])
            following = turns[at + 1][1] if at + 1 < len(turns) and turns[at + 1][0] == "user" else []
            results = []
            for block, _ in following:
                if block["type"] != "tool_result":
                    break
                results.append(block["tool_use_id"])
            missing = [each for each in uses if each not in results]
            if missing and at + 1 < len(turns):
                refuse(f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the next message.")
        if role == "user":
            uses = [block["id"] for block, _ in turns[at - 1][1] if block["type"] == "tool_use"] if at else []
            answered = set()
            for block, where in blocks:
                if block["type"] != "tool_result":
                    continue
                call = block["tool_use_id"]
                if call not in uses:
                    refuse(f"{where}: unexpected `tool_use_id` found in `tool_result` blocks: {call}. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.")
                if call in answered:
                    refuse(f"{where}: each tool_use must have a single result. Found multiple `tool_result` blocks with id: {call}")
                answered.add(call)


def marked(body):
    """All blocks that can have a cache mark, in the order of the prompt: (block, where)."""
    for at, tool in enumerate(body.get("tools") or []):
        yield tool, f"tools.{at}"
    system = body.get("system")
    for at, block in enumerate(system if isinstance(system, list) else []):
        yield block, f"system.{at}"
    for at, message in enumerate(body["messages"]):
        for part, block in enumerate(blocks_of(message)):
            yield block, f"messages.{at}.content.{part}"
            for inner, each in enumerate(result_parts(block)):
                yield each, f"messages.{at}.content.{part}.content.{inner}"


def check_caching(body):
    marks = [(block["cache_control"], where, block) for block, where in marked(body) if block.get("cache_control")]
    count = len(marks) + bool(body.get("cache_control"))
    if count > 4:
        refuse(f"A maximum of 4 blocks with cache_control may be provided. Found {count}.")
    shorter = False
    for mark, where, block in marks:
        if block.get("type") == "text" and not block["text"]:
            refuse(f"{where}.text: cache_control cannot be set for empty text blocks")
        is_hour = mark.get("ttl") == "1h"
        if is_hour and shorter:
            refuse(f"{where}.cache_control.ttl: a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block. Note that blocks are processed in the following order: `tools`, `system`, `messages`.")
        shorter = shorter or not is_hour


def canonical(value):
    """One form for what the API reads alike. The order of keys counts only in a tool's input and schema."""
    if isinstance(value, list):
        return [canonical(each) for each in value]
    if not isinstance(value, dict):
        return value
    result = {}
    for key in sorted(value):
        each = value[key]
        if key == "cache_control" or each is None or (key == "is_error" and each is False):
            continue
        if key == "content" and isinstance(each, str):
            each = [{"type": "text", "text": each}]
        result[key] = compact(each) if key in ("input", "input_schema") else canonical(each)
    return result


def plain(role_and_blocks):
    """Messages as binding sees them: no cache marks, no thinking."""
    return [[role, [canonical(block) for block in blocks if block["type"] not in THINKING]] for role, blocks in role_and_blocks]


def prefix_hash(body, role_and_blocks):
    system = body.get("system", "")
    system = [{"type": "text", "text": system}] if isinstance(system, str) and system else system or []
    return digest(canonical(system), canonical(body.get("tools") or []), plain(role_and_blocks))[:32]


def check_signatures(request, turns, model, has_header):
    """Checks every thinking block; returns what was dropped, and the id of the last block that counts."""
    from .anthropic_models import reads

    body = request.body
    binding = (body.get("thinking") or {}).get("block_binding") or {}
    drops = binding.get("prefix_mismatch_behavior") == "drop_block"
    dropped, before, previous, broken = [], [], "", False
    for role, blocks, _ in turns:
        so_far = []
        for block, where in blocks:
            if block["type"] in THINKING:
                sealed = unseal(block.get("signature") or block.get("data") or "")
                if sealed is None or sealed.get("vendor") != "anthropic":
                    refuse(f"{where}: Invalid `signature` in `thinking` block")
                if block["type"] == "thinking" and block["thinking"] and digest(block["thinking"])[:16] != sealed["text"]:
                    refuse(f"{where}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response.")
                if not reads(request.model, sealed["model"]):
                    dropped.append({"type": "thinking_dropped", "path": where, "reason": "model_binding_mismatch"})
                    continue
                fits = sealed["prefix"] == prefix_hash(body, [*before, [role, so_far]]) and (not previous or sealed["previous"] == previous)
                if model.bound and (broken or not fits):
                    if not drops:
                        tail = "" if has_header else " That setting requires the `thinking-binding-controls-2026-08-01` value in the `anthropic-beta` header."
                        refuse(f"{where}: Invalid `signature` in `thinking` block. The block is bound to a different conversation. Remove the block, or set `thinking.block_binding.prefix_mismatch_behavior` to \"drop_block\".{tail}")
                    broken = True
                    dropped.append({"type": "thinking_dropped", "path": where, "reason": "prefix_binding_mismatch"})
                    continue
                previous = sealed["id"]
            so_far.append(block)
        before.append([role, so_far])
    return dropped, previous


def check_latest(scope, request, turns, body, model):
    """The thinking of the answer that the running tool loop is at must come back as it was given."""
    at = next((at for at in range(len(turns) - 1, -1, -1) if turns[at][0] == "assistant"), None)
    if at is None:
        return
    blocks = [block for block, _ in turns[at][1]]
    kind = (body.get("thinking") or {}).get("type")
    uses = [block["id"] for block in blocks if block["type"] == "tool_use"]
    issued = next((scope.issued[each] for each in uses if each in scope.issued), None)
    if kind == "enabled" and uses and turns[-1][0] == "user" and blocks[0]["type"] not in THINKING:
        where = turns[at][1][0][1]
        refuse(f"{where}.type: Expected `thinking` or `redacted_thinking`, but found `{blocks[0]['type']}`. When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid this requirement, disable `thinking`. Please consult our documentation at https://docs.claude.com/en/docs/build-with-claude/extended-thinking")
    if issued is None:
        return
    shape = lambda items: [item.get("signature") or item.get("data") if item["type"] in THINKING else item["type"] for item in items]
    if not any(block["type"] in THINKING for block in blocks):
        if any(block["type"] in THINKING for block in issued) and kind != "disabled":
            request.warn("the thinking of the running tool loop was left out")
        return
    if shape(blocks) != shape(issued):
        where = next(path for block, path in turns[at][1] if block["type"] in THINKING)
        refuse(f"{where}: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response.")


def cache(scope, request, turns, model):
    """The tokens that come from the cache, that are written to it, and the rest."""
    body = request.body
    system = body.get("system")
    system = system if isinstance(system, list) else ([{"type": "text", "text": system}] if system else [])
    items = [(tool, "tools") for tool in body.get("tools") or []] + [(block, "system") for block in system]
    items += [(block, role) for role, blocks, _ in turns for block, _ in blocks]
    configuration = digest(body.get("thinking") or {}, body.get("output_config") or {})
    positions, running, tokens, marks = [], request.model, 0, []
    for at, (block, role) in enumerate(items):
        # Thinking and effort are part of what the conversation's cache depends on, not of tools and system.
        running = digest(running, role, configuration if role in ("user", "assistant") else "", without(block, "cache_control"))
        tokens += token_count(without(block, "cache_control"))
        positions.append((running, tokens))
        if block.get("cache_control") or any(part.get("cache_control") for part in result_parts(block) if isinstance(part, dict)):
            marks.append(at)
    if body.get("cache_control"):
        eligible = [at for at, (block, _) in enumerate(items) if block.get("type") not in THINKING]
        marks = sorted({*marks, *eligible[-1:]})
    read = written = 0
    with scope.lock:
        known = scope.entries.setdefault(("anthropic", request.model), set())
        for mark in marks:
            for at in range(mark, max(-1, mark - LOOKBACK), -1):
                if positions[at][0] in known:
                    read = max(read, positions[at][1])
                    break
        for mark in marks:
            if positions[mark][1] >= model.cache_minimum:
                known.add(positions[mark][0])
                written = max(written, positions[mark][1])
    end = max(read, written)
    return {"input_tokens": tokens - end + 4, "cache_read_input_tokens": read, "cache_creation_input_tokens": end - read}
