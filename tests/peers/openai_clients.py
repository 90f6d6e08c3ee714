"""Clients for Python that speak OpenAI's chat completions, each as its own documentation begins, with another base URL.

    openai_clients.py URL KEY [WORD...]

URL ends in /v1; behind it an agent named `assistant` uses the model of `openai_upstream.py`. Every scenario prints a line;
with words, only those whose name has one of them run. All run at once, since most of the time is silence.
"""

import concurrent.futures
import os
import time
import traceback

# The first one sets what the others read when they are imported.
from openai_scenarios import ONLY, SCENARIOS

import openai_python_sdk
import openai_frameworks
import openai_waiting


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
