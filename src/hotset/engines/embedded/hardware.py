"""What the processor multiplies natively, and what follows for the serving dtype."""

import platform
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from hotset.engines.embedded.settings import DtypeName

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def hardware_class() -> str:
    """Return a name such as ``cpu-amx_bf16``; numbers are compared within one class only."""
    capabilities = torch.cpu.get_capabilities()
    for name in ("amx_bf16", "avx512_bf16", "avx512_f", "avx2"):
        if capabilities.get(name):
            return f"cpu-{name}"
    return f"cpu-{platform.machine() or 'unknown'}"


def serving_dtype(name: DtypeName) -> torch.dtype:
    """Return the dtype that a setting means on this machine."""
    if name != "auto":
        return _DTYPES[name]
    has_bfloat16 = hardware_class() in ("cpu-amx_bf16", "cpu-avx512_bf16")
    return torch.bfloat16 if has_bfloat16 else torch.float32


def dtype_name(dtype: torch.dtype) -> str:
    """Return a dtype's name as engine facts spell it."""
    return next(name for name, known in _DTYPES.items() if known == dtype)


@contextmanager
def subnormals_as_zero() -> Iterator[None]:
    """Compute with numbers next to zero as if they were zero.

    The processor is ten times slower on them otherwise, and an adapter could be full of them. The setting is this
    thread's; PyTorch's own threads have it from the first one on that started them inside.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@contextmanager
def one_thread() -> Iterator[None]:
    """Compute on this thread alone.

    Each thread that computes with helpers gets a team of its own. With more team members than processors the OpenMP
    runtime lets all of them sleep between two kernels instead of spinning, the stepping thread's too, for as long as
    the team stays; waking them took a quarter of each step here.
    """
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)
