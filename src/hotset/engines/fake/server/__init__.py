"""The fake engine behind HTTP: what vLLM and SGLang answer there, their mistakes among it."""
