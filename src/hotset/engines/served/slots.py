"""Fills and empties an engine's slots: loads through its own API, confirmed and undone through the plugin."""

import asyncio

from hotset.core.errors import LoadFailedError
from hotset.core.ids import EngineName
from hotset.core.messages import AdapterLoad, LoadReport
from hotset.engines.promised_files import check_promised
from hotset.engines.served.dialects import Dialect, words_of
from hotset.engines.served.http_client import HttpClient
from hotset.engines.served.plugin import Held
from hotset.engines.served.plugin_client import PluginClient

_OK = 200


class Slots:
    """One engine's."""

    def __init__(self, client: HttpClient, plugin: PluginClient, dialect: Dialect, *, num_slots: int) -> None:
        self._client = client
        self._plugin = plugin
        self._dialect = dialect
        self._num_slots = num_slots
        #: Held through a load and a removal, so that what the engine says in between stays true.
        self._turn = asyncio.Lock()

    async def load(self, load: AdapterLoad) -> LoadReport:
        """Check a version's bytes on disk, then have the engine put it into a free slot; a no-op where it is in one.

        Raises:
            LoadFailedError: no free slot, other bytes than promised, or the engine refuses them; nothing is left.
            EngineUnavailableError: the engine is gone.
        """
        clock = asyncio.get_running_loop()
        began_s = clock.time()
        await asyncio.to_thread(check_promised, load.folder, load.files)
        async with self._turn:
            held = await self._held(load.engine_name)
            stall_s = 0.0
            if held is None:
                stalled_s = clock.time()
                held = await self._fill(load)
                stall_s = clock.time() - stalled_s
        return LoadReport(
            seconds=clock.time() - began_s,
            stall_seconds=stall_s,
            num_modules=len(load.modules),
            slot_bytes=held.num_bytes,
        )

    async def unload(self, name: EngineName) -> None:
        """Have slot, host copy and name taken away: the engine's own unload would take the name alone.

        Raises:
            LoadFailedError: a request that has not ended uses it.
            EngineUnavailableError: the engine is gone.
        """
        async with self._turn:
            await self._plugin.remove(name)

    async def _held(self, name: EngineName) -> Held | None:
        """Return a version that is in its slot under its name; else clear what is left of it, and look for a slot."""
        state = await self._plugin.state()
        held = state.find(name)
        if held is not None:
            if held.is_registered and held.tier == "slot":
                return held
            await self._plugin.remove(name)
        if len(set(state.in_slots()) - {name}) >= self._num_slots:
            raise LoadFailedError("no free slot")
        return None

    async def _fill(self, load: AdapterLoad) -> Held:
        """Have the engine load a version; whatever it answers, its slots say whether it did."""
        name = load.engine_name
        body: dict[str, object] = {"lora_name": name, "lora_path": load.folder}
        answer = await self._client.ask("POST", self._dialect.load_path, body)
        held = (await self._plugin.state()).find(name)
        if answer.status == _OK and held is not None and held.tier == "slot":
            return held
        if held is not None:
            await self._plugin.remove(name)
        if answer.status != _OK:  # also a 500: that is how vLLM refuses weights
            raise LoadFailedError(f"the engine refuses it with {answer.status}: {words_of(answer.body)}")
        raise LoadFailedError("the engine took it, but it is in no slot")
