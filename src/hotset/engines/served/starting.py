"""Whether an engine that came up is one to serve by; else it is refused, with the command that starts it right."""

import asyncio
import shlex
from pathlib import Path

import msgspec

from hotset.core.errors import EngineUnavailableError
from hotset.core.messages import EngineFacts
from hotset.engines.served import plugin
from hotset.engines.served.http_client import HttpClient
from hotset.engines.served.settings import ServedSettings

_OK = 200
_ASK_AGAIN_S = 0.02
_HEALTH = "/health"


async def await_healthy(client: HttpClient, gone: asyncio.Event) -> None:
    """Return once the engine says that it is well.

    Raises:
        EngineUnavailableError: it ended first.
    """
    while True:
        if gone.is_set():
            raise EngineUnavailableError("its process ended")
        try:
            if (await client.ask("GET", _HEALTH)).status == _OK:
                return
        except EngineUnavailableError:
            await asyncio.sleep(_ASK_AGAIN_S)  # it does not listen yet
            continue
        await asyncio.sleep(_ASK_AGAIN_S)


async def take_facts(client: HttpClient, settings: ServedSettings, socket: Path) -> EngineFacts:
    """Return what the engine is.

    Raises:
        EngineUnavailableError: it has no plugin of ours, or is another engine than it was to be.
    """
    command = shlex.join(settings.command_of(socket))
    answer = await client.ask("GET", plugin.STATE)
    if answer.status != _OK:
        raise EngineUnavailableError(
            "it serves without Hotset's plugin, so nobody knows what is in its slots and nothing can be unloaded; "
            f"start it with: {command}"
        )
    try:
        state = msgspec.json.decode(answer.body, type=plugin.PluginState)
    except msgspec.DecodeError as error:
        raise EngineUnavailableError(f"its plugin is of another version: {error}") from error
    fault = _fault(state, settings)
    if fault:
        raise EngineUnavailableError(f"{fault}; start it with: {command}")
    return EngineFacts(
        engine=state.engine,
        base=settings.base,
        dtype=state.dtype,
        hardware_class=state.hardware_class,
        num_slots=state.num_slots,
        rank_max=state.rank_max,
        model_len_max=state.model_len_max,
        num_sequences_max=state.num_sequences_max,
    )


def _fault(state: plugin.PluginState, settings: ServedSettings) -> str:
    """Return why it is not to be served by; empty where nothing is wrong."""
    if state.num_slots != settings.num_slots:
        return f"it has {state.num_slots} usable slots instead of {settings.num_slots}"
    if state.num_host_extra:
        return f"it keeps {state.num_host_extra} host copies beyond its slots, which it would bring in by itself"
    if state.base is not None and state.base != settings.base:
        return f"it serves another base version than {settings.base}"
    if state.held:
        return f"it holds {len(state.held)} adapters that nobody checked"
    return ""
