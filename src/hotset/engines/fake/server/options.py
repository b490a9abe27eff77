"""What one served fake engine is: its command line, and the same taken apart again."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Literal

HabitsName = Literal["vllm", "sglang"]
MODULE = "hotset.engines.fake.server"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """Each field is a flag of the same name; one that is true or false stands alone."""

    #: Whose statuses, times and mistakes it has.
    habits: HabitsName = "vllm"
    #: Unix socket to listen on; empty listens on `host` and `port`.
    uds: str = ""
    host: str = "127.0.0.1"
    port: int = 8000
    served_model_name: str = "base"
    #: Digest of the base version that its answers follow from.
    base: str = "base"
    #: Adapters in a step; with SGLang the base takes one of these places.
    max_loras: int = 4
    #: Adapters with host copies; 0 is `max_loras`.
    max_cpu_loras: int = 0
    max_lora_rank: int = 16
    max_model_len: int = 2048
    max_num_seqs: int = 64
    max_waiting: int = 4096
    max_num_batched_tokens: int = 256
    num_kv_blocks: int = 4096
    #: How many times as fast as its profile.
    speed: float = 1.0
    #: SGLang copies adapters into their slots beside the steps.
    enable_lora_overlap_loading: bool = False
    #: Load and unload while it serves (`VLLM_ALLOW_RUNTIME_LORA_UPDATING`).
    runtime_lora_updating: bool = False
    #: With Hotset's plugin, which also repairs rows of the base.
    plugin: bool = False
    #: Takes faults on demand at `/fault`.
    faults: bool = False
    #: End with the standard input, as a child of its owner.
    ends_with_stdin: bool = False

    @property
    def num_host(self) -> int:
        """Adapters with host copies."""
        return max(self.max_loras, self.max_cpu_loras)

    @property
    def num_slots(self) -> int:
        """Usable slots."""
        return self.max_loras - (self.habits == "sglang")


def command_of(options: ServerOptions) -> tuple[str, ...]:
    """Return the program and arguments that start this server; what is as by default is not said."""
    command = [sys.executable, "-m", MODULE]
    for field in fields(options):
        value = getattr(options, field.name)
        if value == field.default:
            continue
        command.append(_flag(field.name))
        if value is not True:
            command.append(str(value))
    return tuple(command)


def parse_options(arguments: Sequence[str]) -> ServerOptions:
    """Return what a command line says; ends the program where it makes no sense."""
    parser = argparse.ArgumentParser(prog=MODULE, description="An engine without a model, behind HTTP.")
    defaults: dict[str, str | float] = asdict(ServerOptions())
    for name, value in defaults.items():
        if value is False:
            parser.add_argument(_flag(name), action="store_true")
        else:
            parser.add_argument(_flag(name), type=type(value), default=value)
    return ServerOptions(**vars(parser.parse_args(arguments)))


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
