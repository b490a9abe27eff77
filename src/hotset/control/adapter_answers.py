"""What the admin API answers about uploads, verdicts and versions: Pydantic models, beside those in `answers`."""

from typing import Any, Literal

from hotset.control.answers import Answer


class UploadAnswer(Answer):
    """A new upload."""

    upload: str


class FileAnswer(Answer):
    """A file as it was received."""

    filename: str
    size_bytes: int
    digest: str


class WarningAnswer(Answer):
    """Something a publisher should know."""

    code: str
    message: str


class ModuleAnswer(Answer):
    """One adapted linear."""

    module: str
    rank: int
    alpha: float
    scaling: float


class VerdictAnswer(Answer):
    """What verify says."""

    verdict: Literal["accepted", "refused"]
    code: str | None
    message: str
    subject: str | None
    warnings: list[WarningAnswer]
    digest: str | None
    modules: list[ModuleAnswer]


class VersionFileAnswer(Answer):
    """One stored file."""

    name: str
    size_bytes: int
    digest: str


class HistoryAnswer(Answer):
    """One step of a version's life."""

    state: str
    reason: str
    actor: str
    at_s: float


class ProofAnswer(Answer):
    """One proof."""

    engine: str
    dtype: str
    hardware_class: str
    fingerprint: dict[str, Any]
    at_s: float


class ApprovalAnswer(Answer):
    """Who approved, when, with which key."""

    reviewer: str
    reviewer_key: str
    at_s: float


class VersionAnswer(Answer):
    """A version."""

    ref: str
    owner: str
    name: str
    number: int
    state: str
    reason: str
    base: str
    digest: str
    engine_name: str
    rank_max: int
    num_modules: int
    size_bytes: int
    files: list[VersionFileAnswer]
    overrides: list[str]
    warnings: list[WarningAnswer]
    publisher: str
    created_at_s: float
    is_banned: bool
    is_quarantined: bool
    is_purged: bool
    approval: ApprovalAnswer | None
    history: list[HistoryAnswer]
    proofs: list[ProofAnswer]
    is_new: bool = False


class AdapterAnswer(Answer):
    """An adapter and its versions."""

    adapter: str
    owner: str
    name: str
    active: int | None
    created_at_s: float
    versions: list[VersionAnswer]


class AdaptersAnswer(Answer):
    """Every adapter."""

    adapters: list[AdapterAnswer]
