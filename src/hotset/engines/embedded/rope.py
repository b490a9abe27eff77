"""Rotary position embedding tables.

Source: RoFormer (arXiv 2104.09864); the llama3 rescaling as published with Llama 3.1.
"""

import math

import torch

from hotset.engines.embedded.model_config import RopeConfig


def inverse_frequencies(rope: RopeConfig, head_dim: int) -> torch.Tensor:
    """Return the angle per position of each pair of a head, float32 [head_dim / 2]."""
    exponents = torch.arange(0, head_dim, 2, dtype=torch.int64).to(torch.float32) / head_dim
    frequencies = 1.0 / (rope.theta**exponents)
    if rope.kind == "linear":
        return frequencies / rope.factor
    if rope.kind == "llama3":
        return _llama3(frequencies, rope)
    return frequencies


def rope_tables(rope: RopeConfig, head_dim: int, length: int, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cosines [length, 1, 1, half] and signed sines [length, 1, 2, half].

    With a head seen as [2, half], the rotated head is ``x * cos + x.flip(-2) * sin``.
    """
    positions = torch.arange(length, dtype=torch.int64).to(torch.float32)
    angles = positions[:, None] * inverse_frequencies(rope, head_dim)[None, :]
    cosines, sines = angles.cos(), angles.sin()
    signed = torch.stack((-sines, sines), dim=1)
    return cosines[:, None, None, :].to(dtype), signed[:, None].contiguous().to(dtype)


def _llama3(frequencies: torch.Tensor, rope: RopeConfig) -> torch.Tensor:
    wavelengths = 2 * math.pi / frequencies
    long_wavelength = rope.original_context_len / rope.low_freq_factor
    short_wavelength = rope.original_context_len / rope.high_freq_factor
    blend = (rope.original_context_len / wavelengths - rope.low_freq_factor) / (
        rope.high_freq_factor - rope.low_freq_factor
    )
    blended = (1 - blend) * frequencies / rope.factor + blend * frequencies
    scaled = torch.where(wavelengths > long_wavelength, frequencies / rope.factor, blended)
    return torch.where(wavelengths < short_wavelength, frequencies, scaled)
