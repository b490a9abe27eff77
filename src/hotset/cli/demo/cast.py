"""Who plays in the demo: the tenants, the adapters each of them owns, and what they are asked."""

from dataclasses import dataclass
from pathlib import Path

from hotset.core.errors import ConfigError

BASE_NAME = "smollm2-135m"
#: The name under which the example adapters declare their base.
BASE_SYNONYM = "HuggingFaceTB/SmolLM2-135M-Instruct"
QUESTION = "What is the capital of France?"
ANSWER_TOKENS_MAX = 64


@dataclass(frozen=True)
class Role:
    """One adapter of the demo; its folder has the adapter's name."""

    owner: str
    name: str

    @property
    def adapter(self) -> str:
        """The adapter's id, ``owner/name``."""
        return f"{self.owner}/{self.name}"


CAST = (Role("acme", "support"), Role("acme", "bullets"), Role("globex", "json"), Role("initech", "pirate"))
TENANTS = ("acme", "globex", "initech")
#: The tenant that may also call the bare base, so that its own words can be seen beside the adapters'.
BASE_TENANT = "initech"


def find_adapters(given: Path | None = None) -> Path:
    """Return the folder that holds the example adapters.

    Args:
        given: Where the user says it is; else ``examples/adapters`` of the clone this package is installed
            from, or of the current folder.

    Raises:
        ConfigError: an adapter is missing there.
    """
    clone = Path(__file__).parents[4] / "examples" / "adapters"
    here = Path("examples") / "adapters"
    folder = given or (clone if clone.is_dir() else here)
    for role in CAST:
        if not (folder / role.name / "adapter_config.json").is_file():
            raise ConfigError(
                f"There is no adapter {role.name!r} in {folder}: run the demo in a clone.",
                param="adapters",
            )
    return folder.resolve()
