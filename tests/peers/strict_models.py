"""Starts strict fakes of the model vendors' servers on a free loopback port; see `strict/server.py`.

Prints the address as the first line and ends when its standard input does, so that it never outlives the test that
started it.
"""

from strict.server import main

main()
