"""Scenarios of frameworks for Python that use chat completions."""

import asyncio
import base64

import agents
import instructor
import langchain.agents
import langchain.agents.structured_output
import langchain_openai
import litellm
import openai
import pydantic_ai
import pydantic_ai.models.openai
import pydantic_ai.providers.openai

from openai_python_sdk import client, run_tools
from openai_scenarios import ALL, BOTH, KEY, MODEL, PNG, PNG_URL, REPORT, SEEN, URL, WEATHER, Report, counted, each, ends, function_tool, same, scenario, user

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
