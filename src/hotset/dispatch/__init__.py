"""One worker's `residency` and `admission` together: a slot first, then a place in the engine. Events in, effects out.

The agent carries its effects out; simulator and planner run the same object.
"""
