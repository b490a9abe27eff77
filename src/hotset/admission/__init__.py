"""Who is let in: bounded counts of requests in flight, and the words for how each ended. No waiting, no HTTP."""
