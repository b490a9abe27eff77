"""Engines that serve HTTP, as vLLM and SGLang do: the Engine port over their own API and Hotset's plugin in them."""
