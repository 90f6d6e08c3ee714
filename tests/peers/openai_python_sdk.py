"""Scenarios of OpenAI's own SDK for Python."""

import asyncio

import openai
import pydantic

from openai_scenarios import ALL, BOTH, KEY, MODEL, PEOPLE, PNG_URL, REPORT, SCENARIOS, SEEN, URL, WEATHER, Report, counted, each, ends, function_tool, has, same, scenario, user


def client():
    return openai.OpenAI(base_url=URL, api_key=KEY)


@each(*ALL)
def openai_plain(case):
    completion = client().chat.completions.create(model=MODEL, messages=user(f"openai plain {case}"))
    choice = completion.choices[0]
    same((choice.message.content, choice.message.role, choice.finish_reason), (f"You said: openai plain {case}".strip(), "assistant", "stop"))
    same(completion.object, "chat.completion")
    counted(completion.usage.total_tokens, case)


@each(*ALL)
def openai_stream(case):
    stream = client().chat.completions.create(
        model=MODEL, messages=user(f"openai stream {case}"), stream=True, stream_options={"include_usage": True}
    )
    text, finish, usage = "", None, None
    for chunk in stream:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            text, finish = text + (choice.delta.content or ""), choice.finish_reason or finish
    ends(text, f"You said: openai stream {case}".strip())
    same(finish, "stop")
    counted(usage.total_tokens, case)


@each(*ALL)
def openai_async_stream(case):
    async def run():
        stream = await openai.AsyncOpenAI().chat.completions.create(
            model=MODEL, messages=user(f"openai async {case}"), stream=True
        )
        # As in the quick start: no look at whether there is a choice.
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

    ends(asyncio.run(run()), f"You said: openai async {case}".strip())


@each("", "silence", "hiccup")
def openai_stream_helper(case):
    with client().chat.completions.stream(model=MODEL, messages=user(f"openai helper {case}")) as stream:
        text = "".join(event.delta for event in stream if event.type == "content.delta")
        final = stream.get_final_completion()
    wanted = f"You said: openai helper {case}".strip()
    same((text, final.choices[0].message.content, final.choices[0].finish_reason), (wanted, wanted, "stop"))


def run_tools(complete, messages):
    """The loop that applications write."""
    rounds = []
    while True:
        message = complete(messages)
        messages.append(message)
        if not message.tool_calls:
            return message.content, rounds
        rounds.append(len(message.tool_calls))
        for call in message.tool_calls:
            city = pydantic.TypeAdapter(dict).validate_json(call.function.arguments)["city"]
            messages.append({"role": "tool", "tool_call_id": call.id, "content": f"{call.function.name} of {city}"})


@each(*ALL)
def openai_tools(case):
    complete = lambda messages: client().chat.completions.create(model=MODEL, messages=messages, tools=[WEATHER]).choices[0].message
    same(run_tools(complete, user(f"openai weather again {case}")), ("The tools said: weather of Oslo; weather of Rome", [1, 1]))


@each(*ALL)
def openai_parallel_tools(case):
    def complete(messages):
        with client().chat.completions.stream(model=MODEL, messages=messages, tools=[WEATHER, PEOPLE]) as stream:
            return stream.get_final_completion().choices[0].message

    told, rounds = run_tools(complete, user(f"openai weather and people, both {case}"))
    same(rounds, [4])
    ends(told, f"{BOTH}; people of Oslo; people of Rome")


@each(*ALL)
def openai_parse(case):
    completion = client().chat.completions.parse(
        model=MODEL, messages=user(f"openai parse {case}" + ' expect {"response_format.json_schema.strict": true}'), response_format=Report
    )
    same(completion.choices[0].message.parsed, REPORT)


@each(*ALL)
def openai_parse_stream(case):
    with client().chat.completions.stream(model=MODEL, messages=user(f"openai parse stream {case}"), response_format=Report) as stream:
        same(stream.get_final_completion().choices[0].message.parsed, REPORT)


@scenario
def openai_parse_after_tools():
    """Tools first, then an answer by a schema, as `parse` takes both."""
    tool = openai.pydantic_function_tool(Report, name="report")
    messages = user("openai report first")
    complete = lambda: client().chat.completions.parse(model=MODEL, messages=messages, tools=[tool], response_format=Report).choices[0].message
    message = complete()
    same(message.tool_calls[0].function.parsed_arguments, REPORT)
    messages += [message, {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "kept"}]
    same(complete().parsed, REPORT)


@scenario
def openai_json_object():
    completion = client().chat.completions.create(model=MODEL, messages=user("openai: say it in json"), response_format={"type": "json_object"})
    same(pydantic.TypeAdapter(dict).validate_json(completion.choices[0].message.content)["city"], "Oslo")


@scenario
def openai_image():
    content = [{"type": "text", "text": "openai image"}, {"type": "image_url", "image_url": {"url": PNG_URL, "detail": "low"}}]
    completion = client().chat.completions.create(model=MODEL, messages=user(content))
    same(completion.choices[0].message.content, SEEN)


@scenario
def openai_image_by_url():
    content = [{"type": "text", "text": "openai image"}, {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]
    completion = client().chat.completions.create(model=MODEL, messages=user(content))
    same(completion.choices[0].message.content, "I see the image at https://example.org/a.png")


@scenario
def openai_tool_choice_required():
    message = client().chat.completions.create(model=MODEL, messages=user("openai must"), tools=[WEATHER], tool_choice="required").choices[0].message
    same([call.function.name for call in message.tool_calls or []], ["weather"])


@scenario
def openai_tool_choice_named():
    choice = {"type": "function", "function": {"name": "people"}}
    asked = client().chat.completions.create(model=MODEL, messages=user("openai must this"), tools=[WEATHER, PEOPLE], tool_choice=choice)
    message = asked.choices[0].message
    same([call.function.name for call in message.tool_calls or []], ["people"])


@scenario
def openai_tool_choice_none():
    message = client().chat.completions.create(model=MODEL, messages=user("openai no weather"), tools=[WEATHER], tool_choice="none").choices[0].message
    same((message.content, message.tool_calls), ("You said: openai no weather", None))


@scenario
def openai_one_call_at_a_time():
    asked = client().chat.completions.create(
        model=MODEL, messages=user("openai weather both"), tools=[function_tool("weather", strict=True)], parallel_tool_calls=False
    )
    same(len(asked.choices[0].message.tool_calls or []), 1)


def passed_on(**given):
    """Each parameter by itself, so that one that is refused does not hide the others."""

    def run(name, value):
        text = f"openai {name} expect " + pydantic.TypeAdapter(dict).dump_json({name: value}).decode()
        return client().chat.completions.create(model=MODEL, messages=user(text), **{name: value}).choices[0].message.content

    for name, value in given.items():
        def one(name=name, value=value):
            same(run(name, value), f"You said: openai {name}")

        one.__name__ = f"openai_param_{name}"
        SCENARIOS.append(one)


passed_on(temperature=0.25, top_p=0.5, stop=["END"], seed=7, presence_penalty=0.5, frequency_penalty=-0.5)


@scenario
def openai_param_stop_text():
    # The server may send a list of one.
    text = 'openai stop text expect {"stop": ["END"]}'
    completion = client().chat.completions.create(model=MODEL, messages=user(text), stop="END")
    same(completion.choices[0].message.content, "You said: openai stop text")


@scenario
def openai_param_max_completion_tokens():
    # The server may choose between the old name and the new one.
    texts = []
    for field in ("max_tokens", "max_completion_tokens"):
        text = f'openai cap {field} expect {{"{field}": 100}}'
        texts.append(client().chat.completions.create(model=MODEL, messages=user(text), max_completion_tokens=100).choices[0].message.content)
    has("\n".join(texts), "You said: openai cap")


@scenario
def openai_taken_without_effect():
    completion = client().chat.completions.create(
        model=MODEL, messages=[{"role": "system", "content": "Be brief", "name": "boss"}, *user("openai much")], user="u", store=False,
        metadata={"a": "b"}, service_tier="auto", n=1, logprobs=False, logit_bias={}, prompt_cache_key="k", safety_identifier="s",
        verbosity="low", modalities=["text"],
    )
    same(completion.choices[0].message.content, "You said: openai much")


@scenario
def openai_refused_in_words():
    for field, value in (("n", 2), ("logprobs", True), ("audio", {"voice": "alloy", "format": "wav"})):
        try:
            client().chat.completions.create(model=MODEL, messages=user("openai refused"), **{field: value})
        except openai.BadRequestError as error:
            same(error.param, field)
        else:
            raise AssertionError(f"{field} was taken")
