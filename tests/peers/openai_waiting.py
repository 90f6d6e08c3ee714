"""Scenarios of turns that wait for a person: the agent `clerk` asks with a form, or has a tool that needs an approval.

The server gives up waiting after 20 s and sends a comment after 15 s of silence, so every stream here gets a comment first.
"""

import asyncio
import json
import threading
import urllib.request

import langchain.agents
import langchain_openai
import litellm
import openai
import pydantic_ai
import pydantic_ai.exceptions
import pydantic_ai.models.openai
import pydantic_ai.providers.openai

from openai_python_sdk import client
from openai_scenarios import KEY, SCENARIOS, URL, ends, has, same, user

CLERK = "clerk"
# The form of the model's own, and the form that asks whether a tool may run.
CASES = {"form": "request_form", "approval": "box__echo"}
ROOT = URL.removesuffix("/v1")


def waits(function):
    """A scenario for each kind of question. The model is asked the same only once, unless a client sends its request again."""
    for case, tool in CASES.items():
        def run(case=case, tool=tool):
            return function(f"waiting: {function.__name__} {tool}")

        run.__name__ = f"{function.__name__}__{case}"
        SCENARIOS.append(run)
    return function


def native(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"authorization": f"Bearer {KEY}", "content-type": "application/json"}
    return urllib.request.urlopen(urllib.request.Request(ROOT + path, data, headers, method=method))


def told(error):
    """The error says which form is open, and where to answer it: what it says is tried out."""
    same(error["code"], "waiting_for_person")
    waiting = error["waiting"]
    has(error["message"], waiting["form_ids"][0], waiting["session_id"], "/api/v1/sessions/stream", waiting["stream"])
    same(json.load(native("GET", f"/api/v1/forms/{waiting['form_ids'][0]}"))["status"], "open")


def raises(kinds, run):
    try:
        found = run()
    except kinds as error:
        return error
    raise AssertionError(f"{found!r} and no error")


def conflict(error):
    same(error.status_code, 409)
    same(error.response.headers["x-should-retry"], "false")
    told(error.body)


@waits
def openai_waits(text):
    ask = lambda: client().chat.completions.create(model=CLERK, messages=user(text))
    conflict(raises(openai.ConflictError, ask))


@waits
def openai_waits_stream(text):
    stream = client().chat.completions.create(model=CLERK, messages=user(text), stream=True)
    told(raises(openai.APIError, lambda: list(stream)).body)


@waits
def openai_waits_async_helper(text):
    async def run():
        async with openai.AsyncOpenAI().chat.completions.stream(model=CLERK, messages=user(text)) as stream:
            return await stream.get_final_completion()

    told(raises(openai.APIError, lambda: asyncio.run(run())).body)


@waits
def openai_answered(text):
    """A person answers after the stream's first comment; the same stream goes on."""
    stream = client().chat.completions.create(model=CLERK, messages=user(text), stream=True)
    first = next(stream)
    session, turn = first.session_id, first.message_id

    def answer():
        # The comment says that the turn waits; the client's stream has it too.
        view = native("GET", f"/api/v1/sessions/{session}/messages/{turn}/stream?as=openai")
        next(line for line in view if line.startswith(b":") and line != b":\n")
        native("POST", "/api/v1/sessions/stream", {"session_id": session, "form_answer": {"approved": True}}).close()

    thread = threading.Thread(target=answer)
    thread.start()
    said = "".join(chunk.choices[0].delta.content or "" for chunk in stream)
    thread.join()
    ends(said, "The tools said: some words" if "box" in text else 'The tools said: {"approved": true}')


def chat():
    return langchain_openai.ChatOpenAI(model=CLERK, base_url=URL, api_key=KEY)


@waits
def langchain_waits(text):
    conflict(raises(openai.ConflictError, lambda: chat().invoke(text)))


@waits
def langchain_waits_stream(text):
    told(raises(openai.APIError, lambda: list(chat().stream(text))).body)


@waits
def langchain_waits_agent(text):
    agent = langchain.agents.create_agent(chat(), tools=[])
    conflict(raises(openai.ConflictError, lambda: agent.invoke({"messages": user(text)})))


def pydantic_agent():
    provider = pydantic_ai.providers.openai.OpenAIProvider(base_url=URL, api_key=KEY)
    return pydantic_ai.Agent(pydantic_ai.models.openai.OpenAIChatModel(CLERK, provider=provider))


@waits
def pydantic_ai_waits(text):
    error = raises(pydantic_ai.exceptions.ModelHTTPError, lambda: asyncio.run(pydantic_agent().run(text)))
    same(error.status_code, 409)
    told(error.body)


@waits
def pydantic_ai_waits_stream(text):
    async def run():
        async with pydantic_agent().run_stream(text) as found:
            return await found.get_output()

    error = raises((openai.APIError, pydantic_ai.exceptions.ModelAPIError), lambda: asyncio.run(run()))
    told(getattr(error, "body", None) or error.__cause__.body)


def lite(text, **given):
    return litellm.completion(model=f"openai/{CLERK}", api_base=URL, api_key=KEY, messages=user(text), **given)


@waits
def litellm_waits(text):
    # LiteLLM has an error of its own for few statuses; the others keep their status and words.
    error = raises(openai.APIError, lambda: lite(text))
    same(error.status_code, 409)
    has(str(error), "waits for a person", "/api/v1/sessions/stream", "form_")


@waits
def litellm_waits_stream(text):
    error = raises(openai.APIError, lambda: list(lite(text, stream=True)))
    has(str(error), "waits for a person", "/api/v1/sessions/stream", "form_")
