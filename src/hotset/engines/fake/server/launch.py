"""How the fake engine is started as an HTTP engine that Hotset serves by."""

from dataclasses import replace
from pathlib import Path

from hotset.core.ids import Digest
from hotset.engines.fake.server.options import ServerOptions, command_of
from hotset.engines.served.dialects import SGLANG, VLLM
from hotset.engines.served.settings import ServedSettings


def served_settings(options: ServerOptions, *, start_timeout_s: float = 60.0) -> ServedSettings:
    """Return how an engine with these options is started and served by: with the plugin, whatever they say of it."""

    def command(socket: Path) -> tuple[str, ...]:
        uds = replace(options, uds=str(socket), plugin=True, runtime_lora_updating=True, ends_with_stdin=True)
        return command_of(uds)

    return ServedSettings(
        dialect=SGLANG if options.habits == "sglang" else VLLM,
        command_of=command,
        base=Digest(options.base),
        base_name=options.served_model_name,
        num_slots=options.num_slots,
        start_timeout_s=start_timeout_s,
    )
