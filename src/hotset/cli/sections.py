"""The shape of hotset.yaml as Pydantic models, made from the rooms' own settings so that no default stands twice."""

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Annotated, Any, get_type_hints

from pydantic import BaseModel, Field, create_model

from hotset.cli.declarations import Declarations, Section, Size
from hotset.cli.settings import ServerSettings
from hotset.engines import settings as engine_settings
from hotset.engines.settings import EngineSettings
from hotset.gateway import settings as gateway_settings
from hotset.gateway.jobs import settings as job_settings
from hotset.gateway.jobs.settings import JobSettings
from hotset.gateway.settings import GatewaySettings
from hotset.links import settings as link_settings
from hotset.links.settings import FleetSettings
from hotset.routing import placements
from hotset.routing.placements import HomesSettings
from hotset.storage.staging import UploadLimits
from hotset.worker.settings import WorkerSettings

Bounds = Mapping[str, tuple[float, float]]

_MIB = 1 << 20
_WORKER_BOUNDS: Bounds = {
    "warm_bytes_max": (_MIB, 1 << 44),
    "fetched_bytes_max": (_MIB, 1 << 44),
    "load_timeout_s": (0.1, 3600.0),
    "effect_timeout_s": (0.1, 3600.0),
    "load_retry_s": (0.0, 3600.0),
    "engine_sequences_max": (0, 65_536),
    "distinct_adapters_max": (0, 1024),
    "distinct_adapters_sweep_s": (0.0, 30.0),
    "waiting_max": (2, 1_000_000),
    "loads_per_minute": (0.01, 60_000.0),
    "snapshot_wait_s": (0.0, 60.0),
    "stall_ms_per_s": (0.1, 1000.0),
    "reclaim_s": (0.1, 3600.0),
    "stall_timeout_s": (0.1, 3600.0),
    "watchdog_interval_s": (0.0, 3600.0),
    "restart_pause_min_s": (0.01, 600.0),
    "restart_pause_max_s": (0.01, 3600.0),
    "drain_timeout_s": (0.0, 3600.0),
}
_UPLOAD_BOUNDS: Bounds = {
    "file_bytes_max": (1024, 1 << 40),
    "upload_bytes_max": (1024, 1 << 40),
    "num_files_max": (1, 4096),
    "num_uploads_max": (1, 4096),
}
_SERVER_BOUNDS: Bounds = {"tenant_port": (0, 65_535), "admin_port": (0, 65_535)}

#: Section of the file → the settings it fills and their bounds.
SECTIONS: Mapping[str, tuple[type[Any], Bounds]] = {
    "server": (ServerSettings, _SERVER_BOUNDS),
    "gateway": (GatewaySettings, gateway_settings.BOUNDS),
    "jobs": (JobSettings, job_settings.BOUNDS),
    "engine": (EngineSettings, engine_settings.BOUNDS),
    "worker": (WorkerSettings, _WORKER_BOUNDS),
    "uploads": (UploadLimits, _UPLOAD_BOUNDS),
    "fleet": (FleetSettings, link_settings.BOUNDS),
    "homes": (HomesSettings, placements.BOUNDS),
}


def section_model(name: str) -> type[BaseModel]:
    """Return the model of one section, with the defaults of the room's settings and their bounds."""
    settings, bounds = SECTIONS[name]
    hints = get_type_hints(settings)
    entries: dict[str, Any] = {}
    for entry in fields(settings):
        least, greatest = bounds.get(entry.name, (None, None))
        kind = Size if hints[entry.name] is int and "_bytes" in entry.name else hints[entry.name]
        kind = Annotated[kind, Field(ge=least, le=greatest)] if least is not None else kind
        assert entry.default is not MISSING, f"{name}.{entry.name} has no default"
        entries[entry.name] = (kind, entry.default)
    return create_model(f"{name.capitalize()}Section", __base__=Section, __doc__=settings.__doc__, **entries)


def file_model() -> type[BaseModel]:
    """Return the model of the whole file."""
    empty = Field(default_factory=dict, validate_default=True)
    entries: Any = {name: (section_model(name), empty) for name in SECTIONS}
    return create_model("FileModel", __base__=Declarations, __doc__="The whole of hotset.yaml.", **entries)
