"""Who is hot, warm and cold on one worker, and who holds a lease there: events in, effects out.

This room moves no bytes and calls no engine; the agent carries its effects out and reports each outcome as an event.
"""
