"""One served fake engine: names on one side, slots and host copies on the other, which do not always agree."""

from dataclasses import replace

from hotset.core.clock import Clock
from hotset.core.errors import LoadFailedError
from hotset.core.ids import Digest
from hotset.engines.fake.adapter_folder import read_unchecked
from hotset.engines.fake.adapter_tiers import AdapterKey, AdapterTiers, Weights
from hotset.engines.fake.flaws import Flaws
from hotset.engines.fake.loop import EngineLoop, Limits
from hotset.engines.fake.profiles import PROFILES
from hotset.engines.fake.server.options import ServerOptions
from hotset.engines.fake.server.stepping import Stepper


class Serving:
    """Everything behind the routes."""

    def __init__(self, options: ServerOptions, clock: Clock) -> None:
        self.options = options
        self.clock = clock
        profile = replace(PROFILES[options.habits], overlaps_copies=options.enable_lora_overlap_loading)
        self.profile = profile
        self.tiers = AdapterTiers(num_slots=options.max_loras, num_host=options.num_host, read=self._read)
        limits = Limits(
            num_sequences_max=options.max_num_seqs,
            num_waiting_max=options.max_waiting,
            model_len_max=options.max_model_len,
            num_kv_blocks=options.num_kv_blocks,
            step_tokens_max=options.max_num_batched_tokens,
        )
        # Hotset's plugin repairs the operations that lead rows of the base astray.
        flaws = Flaws(base_rows_stray=options.habits == "vllm" and not options.plugin)
        self.loop = EngineLoop(Digest(options.base), profile, self.tiers, limits, flaws)
        self.stepper = Stepper(self.loop, speed=options.speed, clock=clock)
        #: Names that requests may use.
        self.registered: dict[str, AdapterKey] = {}
        #: Every name that was given, and still given by weights once it is no longer registered.
        self.names: dict[AdapterKey, str] = {}

    async def load(self, name: str, folder: str, *, in_place: AdapterKey | None = None) -> AdapterKey:
        """Read an adapter on the engine's loop, which stops all of it, put it into a slot, and give it a name.

        Args:
            name: To be registered.
            folder: Whatever is in it now.
            in_place: The adapter whose weights are replaced.

        Raises:
            FileNotFoundError: there is no adapter in the folder.
            LoadFailedError: what is in it can't be served.
        """
        async with self.stepper.turn:
            weights = self._read(folder)
            await self.stepper.take(self.profile.timing.of_load(weights.num_bytes, "disk"))
            if in_place is None:
                key = self.tiers.add(folder, weights, self.loop.in_use())
                self._into_slot(key)
            else:
                key = in_place
                self.tiers.replace(key, folder, weights)
            if weights.has_nan:
                self.loop.flaws.nan_adapters.add(key)
            self.registered[name] = key
            self.names[key] = name
        return key

    def remove(self, key: AdapterKey) -> None:
        """Take slot, host copy and name away."""
        self.tiers.remove(key)
        name = self.names.pop(key, "")
        if self.registered.get(name) == key:
            del self.registered[name]

    def keys_of(self, name: str) -> list[AdapterKey]:
        """Return all that was ever given this name and is not gone: the engine's own unload leaves weights behind."""
        return [key for key, given in self.names.items() if given == name]

    def _into_slot(self, key: AdapterKey) -> None:
        try:
            self.tiers.bring(key, self.loop.in_use())
        except LoadFailedError:
            self.tiers.remove(key)
            raise

    def _read(self, folder: str) -> Weights:
        weights = read_unchecked(folder)
        if weights.rank > self.options.max_lora_rank:
            limit = self.options.max_lora_rank
            raise LoadFailedError(f"LoRA rank {weights.rank} is greater than max_lora_rank {limit}.")
        return weights
