"""Strict fakes of the model vendors' servers: requests are checked with the vendors' own SDK types and documented rules."""
