"""Clients for Python that speak OpenAI's chat completions, each as its own documentation begins, with another base URL.

    openai_clients.py URL KEY [WORD...]

URL ends in /v1; behind it an agent named `assistant` uses the model of `openai_upstream.py`. Every scenario prints a line;
with words, only those whose name has one of them run. All run at once, since most of the time is silence.
"""

import asyncio
import base64
import concurrent.futures
import os
import struct
import sys
import time
import traceback
import zlib

# These two would ask servers of their own.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"
os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

URL, KEY, ONLY = sys.argv[1], sys.argv[2], sys.argv[3:]
# The SDKs' own variables, for the clients that are usually configured by them.
os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"] = URL, KEY

import agents
import instructor
import langchain.agents
import langchain.agents.structured_output
import langchain_openai
import litellm
import openai
import pydantic
import pydantic_ai
import pydantic_ai.models.openai
import pydantic_ai.providers.openai

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


# OpenAI's own SDK.


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


# LangChain.


def chat():
    return langchain_openai.ChatOpenAI(model=MODEL, base_url=URL, api_key=KEY)


@each(*ALL)
def langchain_invoke(case):
    message = chat().invoke(f"langchain invoke {case}")
    same(message.content, f"You said: langchain invoke {case}".strip())
    counted(message.usage_metadata["total_tokens"], case)


@each(*ALL)
def langchain_stream(case):
    ends("".join(chunk.text for chunk in chat().stream(f"langchain stream {case}")), f"You said: langchain stream {case}".strip())


@each(*ALL)
def langchain_structured(case):
    same(chat().with_structured_output(Report).invoke(f"langchain structured {case}"), REPORT)


@scenario
def langchain_structured_function_calling():
    same(chat().with_structured_output(Report, method="function_calling").invoke("langchain by call"), REPORT)


@scenario
def langchain_structured_json_mode():
    found = chat().with_structured_output({"title": "Report", **Report.model_json_schema()}, method="json_mode").invoke("langchain in json")
    same(found["city"], "Oslo")


@scenario
def langchain_structured_stream():
    same(list(chat().with_structured_output(Report).stream("langchain structured stream"))[-1], REPORT)


@scenario
def langchain_image():
    content = [{"type": "text", "text": "langchain image"}, {"type": "image", "base64": base64.b64encode(PNG).decode(), "mime_type": "image/png"}]
    same(chat().invoke(user(content)).content, SEEN)


@scenario
def langchain_stop():
    text = 'langchain stop expect {"stop": ["END"], "temperature": 0.5}'
    model = langchain_openai.ChatOpenAI(model=MODEL, base_url=URL, api_key=KEY, temperature=0.5)
    same(model.invoke(text, stop=["END"]).content, "You said: langchain stop")


def weather(city: str) -> str:
    """Tells the weather."""
    return f"weather of {city}"


@each(*ALL)
def langchain_agent(case):
    agent = langchain.agents.create_agent(chat(), tools=[weather], system_prompt="You are helpful")
    state = agent.invoke({"messages": user(f"langchain weather both {case}")})
    same(state["messages"][-1].content, BOTH)


@each(*ALL)
def langchain_agent_stream(case):
    agent = langchain.agents.create_agent(chat(), tools=[weather])
    text = ""
    for chunk, _ in agent.stream({"messages": user(f"langchain streams weather both {case}")}, stream_mode="messages"):
        text += chunk.text if chunk.type == "AIMessageChunk" else ""
    ends(text, BOTH)


@scenario
def langchain_agent_structured():
    """The provider's structured output, after tools."""
    strategy = langchain.agents.structured_output.ProviderStrategy(Report)
    agent = langchain.agents.create_agent(chat(), tools=[weather], response_format=strategy)
    same(agent.invoke({"messages": user("langchain reports weather")})["structured_response"], REPORT)


@scenario
def langchain_agent_structured_by_tool():
    """What create_agent does with a schema for a model that it does not know."""
    agent = langchain.agents.create_agent(chat(), tools=[weather], response_format=Report)
    same(agent.invoke({"messages": user("langchain tells weather")})["structured_response"], REPORT)


# pydantic-ai.


def pydantic_agent(**given):
    provider = pydantic_ai.providers.openai.OpenAIProvider(base_url=URL, api_key=KEY)
    return pydantic_ai.Agent(pydantic_ai.models.openai.OpenAIChatModel(MODEL, provider=provider), **given)


@each(*ALL)
def pydantic_ai_text(case):
    found = asyncio.run(pydantic_agent(instructions="Be concise").run(f"pydantic text {case}"))
    same(found.output, f"You said: pydantic text {case}".strip())


@each("", "silence", "hiccup")
def pydantic_ai_stream(case):
    async def run():
        async with pydantic_agent().run_stream(f"pydantic stream {case}") as found:
            return "".join([piece async for piece in found.stream_text(delta=True)])

    same(asyncio.run(run()), f"You said: pydantic stream {case}".strip())


@each(*ALL)
def pydantic_ai_typed(case):
    same(asyncio.run(pydantic_agent(output_type=Report).run(f"pydantic typed {case}")).output, REPORT)


@each("", "silence", "hiccup")
def pydantic_ai_native(case):
    same(asyncio.run(pydantic_agent(output_type=pydantic_ai.NativeOutput(Report)).run(f"pydantic native {case}")).output, REPORT)


@scenario
def pydantic_ai_prompted():
    same(asyncio.run(pydantic_agent(output_type=pydantic_ai.PromptedOutput(Report)).run("pydantic in json")).output, REPORT)


@each(*ALL)
def pydantic_ai_tools(case):
    agent = pydantic_agent()
    agent.tool_plain(weather)
    same(asyncio.run(agent.run(f"pydantic weather both {case}")).output, BOTH)


@scenario
def pydantic_ai_tools_typed():
    agent = pydantic_agent(output_type=Report)
    agent.tool_plain(weather)
    same(asyncio.run(agent.run("pydantic types weather")).output, REPORT)


@scenario
def pydantic_ai_typed_stream():
    async def run():
        async with pydantic_agent(output_type=Report).run_stream("pydantic typed stream") as found:
            return await found.get_output()

    same(asyncio.run(run()), REPORT)


@scenario
def pydantic_ai_image():
    image = pydantic_ai.BinaryContent(data=PNG, media_type="image/png")
    same(asyncio.run(pydantic_agent().run(["pydantic image", image])).output, SEEN)


# Instructor.


def structured():
    return instructor.from_openai(client())


@each(*ALL)
def instructor_create(case):
    found = structured().chat.completions.create(model=MODEL, response_model=Report, messages=user(f"instructor {case}"))
    # Instructor makes a class of its own of the model.
    same(found.model_dump(), REPORT.model_dump())


@scenario
def instructor_provider():
    made = instructor.from_provider(f"openai/{MODEL}")
    same(made.create(response_model=Report, messages=user("instructor provider")).model_dump(), REPORT.model_dump())


@each("", "silence")
def instructor_partial(case):
    found = list(structured().chat.completions.create_partial(model=MODEL, response_model=Report, messages=user(f"instructor partial {case}")))
    same(found[-1].model_dump(), REPORT.model_dump())


@scenario
def instructor_iterable():
    found = list(structured().chat.completions.create_iterable(model=MODEL, response_model=Report, messages=user("instructor iterable")))
    same(found, [REPORT] * 2)


@scenario
def instructor_json():
    made = instructor.from_openai(client(), mode=instructor.Mode.JSON_SCHEMA)
    found = made.chat.completions.create(model=MODEL, response_model=Report, messages=user("instructor in json"))
    same(found.model_dump(), REPORT.model_dump())


# LiteLLM.


def lite(text, **given):
    return litellm.completion(model=f"openai/{MODEL}", api_base=URL, api_key=KEY, messages=user(text), **given)


@each(*ALL)
def litellm_completion(case):
    same(lite(f"litellm {case}").choices[0].message.content, f"You said: litellm {case}".strip())


@each(*ALL)
def litellm_stream(case):
    text = "".join(chunk.choices[0].delta.content or "" for chunk in lite(f"litellm stream {case}", stream=True))
    ends(text, f"You said: litellm stream {case}".strip())


@each("", "silence", "hiccup")
def litellm_tools(case):
    def complete(messages):
        return litellm.completion(model=f"openai/{MODEL}", api_base=URL, api_key=KEY, messages=messages, tools=[WEATHER]).choices[0].message

    same(run_tools(complete, user(f"litellm weather both {case}")), (BOTH, [2]))


@scenario
def litellm_tools_stream():
    chunks = list(lite("litellm streams weather both", tools=[WEATHER], stream=True))
    calls = litellm.stream_chunk_builder(chunks).choices[0].message.tool_calls
    same([(call.function.name, call.function.arguments) for call in calls], [("weather", '{"city": "Oslo"}'), ("weather", '{"city": "Rome"}')])


@scenario
def litellm_structured():
    same(Report.model_validate_json(lite("litellm structured", response_format=Report).choices[0].message.content), REPORT)


@scenario
def litellm_params():
    text = 'litellm params expect {"stop": ["END"], "temperature": 0.5, "top_p": 0.5, "seed": 7}'
    same(lite(text, stop=["END"], temperature=0.5, top_p=0.5, seed=7).choices[0].message.content, "You said: litellm params")


@scenario
def litellm_image():
    content = [{"type": "text", "text": "litellm image"}, {"type": "image_url", "image_url": {"url": PNG_URL}}]
    same(lite(content).choices[0].message.content, SEEN)


# OpenAI's Agents SDK, with chat completions.


def sdk_agent(**given):
    model = agents.OpenAIChatCompletionsModel(model=MODEL, openai_client=openai.AsyncOpenAI(base_url=URL, api_key=KEY))
    return agents.Agent(name="Assistant", instructions="You are helpful", model=model, **given)


@each(*ALL)
def agents_run(case):
    same(asyncio.run(agents.Runner.run(sdk_agent(), f"agents run {case}")).final_output, f"You said: agents run {case}".strip())


@each(*ALL)
def agents_tools(case):
    found = asyncio.run(agents.Runner.run(sdk_agent(tools=[agents.function_tool(weather)]), f"agents weather both {case}"))
    same(found.final_output, BOTH)


@each("", "silence", "hiccup")
def agents_streamed(case):
    async def run():
        found = agents.Runner.run_streamed(sdk_agent(tools=[agents.function_tool(weather)]), f"agents stream weather both {case}")
        async for _ in found.stream_events():
            pass
        return found.final_output

    same(asyncio.run(run()), BOTH)


@each("", "silence", "hiccup", "cut")
def agents_typed(case):
    same(asyncio.run(agents.Runner.run(sdk_agent(output_type=Report), f"agents typed {case}")).final_output, REPORT)


@scenario
def agents_handoff():
    other = sdk_agent()
    other.name = "Other"
    found = asyncio.run(agents.Runner.run(sdk_agent(handoffs=[other]), "agents transfer_to_other please"))
    same(found.last_agent.name, "Other")


@scenario
def agents_tool_choice():
    settings = agents.ModelSettings(tool_choice="required", temperature=0.5, parallel_tool_calls=False)
    found = asyncio.run(agents.Runner.run(sdk_agent(tools=[agents.function_tool(weather)], model_settings=settings), "agents must"))
    same(found.final_output, "The tools said: weather of Oslo")


def name_of(function):
    """`openai_stream__silence` is the client openai and the scenario stream silence."""
    clients = ("openai", "langchain", "pydantic_ai", "instructor", "litellm", "agents")
    name = next(name for name in clients if function.__name__.startswith(name + "_"))
    return f"{name.replace('_', '-')} {function.__name__[len(name) + 1:].replace('__', '+')}"


def run(function):
    began = time.monotonic()
    try:
        function()
        return name_of(function), None, time.monotonic() - began
    except BaseException as error:
        if os.environ.get("TRACE"):
            traceback.print_exc()
        return name_of(function), f"{type(error).__name__}: {error}".replace("\n", " ")[:400], time.monotonic() - began


def main():
    wanted = [each for each in SCENARIOS if not ONLY or any(word in name_of(each) for word in ONLY)]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(len(wanted)) as pool:
        for future in concurrent.futures.as_completed([pool.submit(run, each) for each in wanted]):
            name, why, seconds = future.result()
            failed += why is not None
            print(f"{name} " + (f"FAIL: {why}" if why else "ok") + f" ({seconds:.1f} s)", flush=True)
    print(f"{len(wanted) - failed} ok, {failed} failed", flush=True)
    os._exit(1 if failed else 0)


main()
