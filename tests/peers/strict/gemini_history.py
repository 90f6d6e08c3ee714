"""The rules for Gemini's `contents`: order of turns, calls and responses, thought signatures, images."""

import dataclasses

from . import media
from .core import unseal

DATA = ("text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult", "toolCall", "toolResponse")
IMAGES = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")
IN_RESPONSES = ("image/png", "image/jpeg", "image/webp", "application/pdf", "text/plain")
SKIP = ("skip_thought_signature_validator", "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I=", "context_engineering_is_the_way_to_go")


@dataclasses.dataclass
class History:
    steps: int
    has_images: bool


def refuse(message):
    from .gemini import refuse

    refuse(message)


def check(request, body, model):
    contents = body.get("contents")
    if not contents:
        refuse("* GenerateContentRequest.contents: contents is not specified\n")
    has_images = False
    for at, content in enumerate(contents):
        if content.get("role") not in ("user", "model") and not (content.get("role") is None and len(contents) == 1):
            refuse("Please use a valid role: user, model.")
        if not content.get("parts"):
            refuse(f"* GenerateContentRequest.contents[{at}].parts: contents.parts must not be empty.\n")
        for index, part in enumerate(content["parts"]):
            has_images |= check_part(part, f"contents[{at}].parts[{index}]", model)
    if contents[0].get("role") == "model":
        refuse("Please ensure that function call turn comes immediately after a user turn or after a function response turn." if calls(contents[0]) else "Please ensure that multiturn requests start with a user turn.")
    if contents[-1].get("role") == "model" and not model.trailing_model_turn:
        refuse("Requests ending with a model turn are not supported.")
    check_order(contents, model)
    last = max((at for at in range(len(contents)) if is_users_own(contents, at)), default=0)
    if model.is_third:
        check_signatures(request, contents, last)
    steps = sum(bool(calls(content)) for content in contents[last:])
    return History(steps, has_images)


def is_users_own(contents, at):
    """Whether the user wrote a content. One after function responses that has data only carries what they show."""
    content = contents[at]
    if content.get("role") == "model" or responses(content):
        return False
    return not (at and responses(contents[at - 1]) and any("inlineData" in part or "fileData" in part for part in content["parts"]))


def calls(content):
    return [part["functionCall"] for part in content["parts"] if "functionCall" in part]


def responses(content):
    return [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]


def check_part(part, where, model):
    data = [key for key in DATA if key in part]
    if len(data) != 1:
        refuse(f"* GenerateContentRequest.{where}.data: required oneof field 'data' must have one initialized field\n")
    if part.get("text") == "" and not part.get("thoughtSignature"):
        refuse(f"Unable to submit request because it must have a text parameter that is not empty: {where}.")
    if "functionCall" in part and not part["functionCall"].get("name"):
        refuse(f"* GenerateContentRequest.{where}.function_call.name: Name cannot be empty.\n")
    if "functionResponse" in part:
        check_response(part["functionResponse"], where, model)
    if "fileData" in part and not part["fileData"].get("fileUri"):
        refuse(f"* GenerateContentRequest.{where}.file_data.file_uri: [FIELD_REQUIRED]\n")
    if "inlineData" in part:
        check_blob(part["inlineData"], where)
        return True
    return False


def check_response(response, where, model):
    if not response.get("name"):
        refuse(f"* GenerateContentRequest.{where}.function_response.name: Name cannot be empty.\n")
    if not isinstance(response.get("response"), dict):
        refuse(f"Invalid value at '{where}.function_response.response' (type.googleapis.com/google.protobuf.Struct)")
    for part in response.get("parts") or []:
        if not model.is_third:
            refuse("Multimodal function responses are not supported for this model.")
        if "inlineData" not in part:
            refuse(f"* GenerateContentRequest.{where}.function_response.parts: only inline_data is supported.\n")
        if part["inlineData"].get("mimeType") not in IN_RESPONSES:
            refuse(f"Unsupported MIME type in function response: {part['inlineData'].get('mimeType')}")
        check_blob(part["inlineData"], where)


def check_blob(blob, where):
    kind, data = blob.get("mimeType"), media.decode((blob.get("data") or "").replace("-", "+").replace("_", "/"))
    if data is None:
        refuse(f"Invalid value at '{where}.inline_data.data' (TYPE_BYTES), Base64 decoding failed")
    if not kind:
        refuse(f"* GenerateContentRequest.{where}.inline_data.mime_type: [FIELD_REQUIRED]\n")
    if kind.startswith("image/") and kind not in IMAGES:
        refuse(f"Unsupported MIME type: {kind}")
    if not kind.startswith(("image/", "audio/", "video/", "text/")) and kind not in ("application/pdf", "application/json"):
        refuse(f"Unsupported MIME type: {kind}")
    actual = media.kind(data)
    if kind.startswith("image/") and actual != kind and not (kind in ("image/heic", "image/heif") and actual == "image/heic"):
        refuse("Unable to process input image. Please retry or report in https://developers.generativeai.google/guide/troubleshooting")
    if kind == "application/pdf" and actual != kind:
        refuse("The document has no pages.")


def check_order(contents, model):
    for at, content in enumerate(contents):
        before = contents[at - 1] if at else None
        made, given = calls(content), responses(content)
        if made:
            if content["role"] != "model":
                refuse("Please ensure that function call turns have the role model.")
            if before is None or before.get("role") == "model":
                refuse("Please ensure that function call turn comes immediately after a user turn or after a function response turn.")
            following = contents[at + 1] if at + 1 < len(contents) else None
            if following is not None and len(responses(following)) != len(made):
                refuse("Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
        if given:
            asked = calls(before) if before else []
            if not asked:
                refuse("Please ensure that function response turn comes immediately after a function call turn.")
            if sorted(each["name"] for each in given) != sorted(each["name"] for each in asked):
                refuse("Please ensure that the names of the function responses are those of the function calls.")
            ids = [each.get("id") for each in asked]
            if model.is_third and any(ids) and sorted(map(str, ids)) != sorted(str(each.get("id")) for each in given):
                refuse("Please ensure that the ids of the function responses are those of the function calls.")


def check_signatures(request, contents, last):
    """In the current turn, the first call of each step must have its signature; older turns are not checked."""
    for at, content in enumerate(contents[last:], last):
        if content.get("role") != "model":
            continue
        first = True
        for index, part in enumerate(content["parts"]):
            signature = part.get("thoughtSignature")
            call = part.get("functionCall")
            if call is not None and first and not signature:
                refuse(f"Function call is missing a thought_signature in functionCall parts. This is required for tools to work correctly, and missing thought_signature may lead to degraded model performance. Additional data, function call `default_api:{call['name']}` , position {at + 1}. Please refer to https://ai.google.dev/gemini-api/docs/thought-signatures for more details.")
            first = first and call is None
            if not signature:
                continue
            if signature in SKIP:
                request.warn(f"contents[{at}].parts[{index}] skips the check of its thought signature")
                continue
            # Bytes may come in either alphabet of base64.
            sealed = unseal(signature.replace("-", "+").replace("_", "/"))
            if sealed is None or sealed.get("vendor") != "gemini":
                refuse("Corrupted thought signature.")
            if sealed["model"] != request.model or (call is not None) != bool(sealed["call"]) or (call is not None and sealed["call"] != call.get("id")):
                refuse("Invalid thought signature.")
