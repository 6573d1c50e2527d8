"""Chaos as a habit: real processes, faults by seed, a history, and a checker that reads it.

`make chaos SECONDS=60 SEED=1` runs it; docs/internals/testing.md says how to read what comes out.
Nothing here knows the store's insides: all is done by command line, HTTP and environment.
"""
