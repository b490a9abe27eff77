"""What real engines get wrong in a step, where an engine is to get it wrong too."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from hotset.engines.fake.adapter_tiers import AdapterKey


@dataclass(slots=True)
class Flaws:
    """Of one engine, from its start on."""

    #: A row of the base beside rows of adapters gets the adapter of the last slot. Source: seen on vLLM 0.32.0's CPU
    #: build (12 of 12 such rows), whose LoRA operations index their weights with -1 for no adapter.
    base_rows_stray: bool = False
    #: Adapters with NaN among their weights, which are loaded without a word.
    nan_adapters: set[AdapterKey] = field(default_factory=set[AdapterKey])
    #: After one request to such an adapter every answer is empty, whoever's it is, until the engine starts again.
    #: Source: seen on vLLM 0.32.0 in bfloat16: recycled KV blocks hold the NaN.
    is_poisoned: bool = False
    #: Adapters that were loaded in place, and are read from disk again for every step that they are in. Source: seen on
    #: vLLM 0.32.0, where the request object kept for the name goes on saying `load_inplace`.
    loaded_in_place: set[AdapterKey] = field(default_factory=set[AdapterKey])

    def reread(self, adapters: Sequence[AdapterKey]) -> list[AdapterKey]:
        """Return which of a step's adapters are read again for it."""
        return [key for key in adapters if key in self.loaded_in_place]

    def touch(self, adapter: AdapterKey | None) -> None:
        """Compute with an adapter's weights."""
        self.is_poisoned |= adapter in self.nan_adapters

    def weights_of(
        self, adapter: AdapterKey | None, others: Sequence[AdapterKey], in_slots: Sequence[AdapterKey]
    ) -> AdapterKey | None:
        """Return whose weights a row gets: its own adapter's where nothing goes wrong.

        Args:
            adapter: The row's own; None for the base.
            others: Adapters of rows in the same step.
            in_slots: Adapters in slots, the first slot's first.
        """
        self.touch(adapter)
        if adapter is None and others and self.base_rows_stray and in_slots:
            return in_slots[-1]
        return adapter
