"""The tenant plane: OpenAI's API, authentication, relay. No load decisions, and no buffer holds a whole stream."""
