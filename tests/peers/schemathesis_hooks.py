"""Tells Schemathesis how our document describes streams: as text whose events' data follows `contentSchema`.

It looks at streams event by event, as OpenAPI 3.2 does with `itemSchema`, which 3.1 has not got.
"""

import schemathesis


@schemathesis.hook
def before_load_schema(context, raw_schema):
    responses = [
        response
        for item in raw_schema["paths"].values()
        for operation in item.values()
        for response in operation["responses"].values()
    ]
    responses += raw_schema["components"].get("responses", {}).values()
    for response in responses:
        media = response.get("content", {}).get("text/event-stream")
        if media:
            media["schema"] = event(media["schema"])


def event(schema):
    data = {"type": "string"}
    if "contentSchema" in schema:
        # The last event of OpenAI's streams is not JSON.
        done = {"const": "[DONE]"}
        content = {"contentMediaType": "application/json", "contentSchema": schema["contentSchema"]}
        data = {"type": "string", "if": done, "else": content}
    return {"type": "object", "required": ["data"], "properties": {"data": data}}
