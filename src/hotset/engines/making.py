"""Which engine an installation's settings ask for, and how it is made."""

from pathlib import Path

from hotset.core.base import BaseVersion
from hotset.engines.fake.engine import num_kv_blocks
from hotset.engines.fake.server.launch import served_settings
from hotset.engines.fake.server.options import ServerOptions
from hotset.engines.hosted import HostedEngine
from hotset.engines.port import Engine
from hotset.engines.served.engine import ServedEngine
from hotset.engines.settings import EngineSettings


def make_engine(settings: EngineSettings, base: BaseVersion, folder: Path) -> Engine:
    """Return an engine over a base version whose files are in a folder; nothing runs until it is started."""
    if settings.kind == "fake_served":
        return ServedEngine(served_settings(_server_options(settings, base)))
    return HostedEngine(settings.spec(base, folder))


def _server_options(settings: EngineSettings, base: BaseVersion) -> ServerOptions:
    """Return the served fake engine's options; nobody's habits are vLLM's here."""
    is_sglang = settings.profile == "sglang"
    return ServerOptions(
        habits="sglang" if is_sglang else "vllm",
        served_model_name=base.name,
        base=base.digest,
        max_loras=settings.num_slots + is_sglang,
        max_lora_rank=settings.rank_max,
        max_model_len=settings.model_len_max or base.shape.context_len,
        max_num_seqs=settings.num_sequences_max,
        max_waiting=settings.num_waiting_max,
        max_num_batched_tokens=settings.step_tokens_max,
        num_kv_blocks=num_kv_blocks(base.shape, settings.kv_bytes_max),
        speed=settings.speed,
    )
