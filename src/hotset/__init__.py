"""Hotset serves many tenants' LoRA adapters over shared base models."""

__version__ = "0.1.0"
