"""The embedded engine: our own PyTorch model code, block KV cache, batched LoRA and sampling, one step at a time."""
