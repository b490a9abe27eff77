"""Whether the base that an adapter declares is the pinned one."""

import re
from dataclasses import dataclass

from hotset.core.base import BaseVersion
from hotset.core.errors import VersionRefusedError
from hotset.registry.refusals import Refusal, refusal, shown

#: ``name`` or ``owner/name`` as model hubs write them; whatever else is declared is a place on somebody's disk.
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(?:/[A-Za-z0-9][\w.-]*)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Origin:
    """What the declared base means."""

    #: The refusal that it deserves, unless an operator overrides it.
    difference: VersionRefusedError | None = None
    #: Codes and messages for the publisher.
    warnings: tuple[tuple[str, str], ...] = ()


def base_difference(declared: str | None, base: BaseVersion) -> Origin:
    """Return how the declared base differs from the pinned one.

    A path names nothing that can be compared, and is never opened: there the shapes alone are the judge.
    """
    names = (base.name, *base.synonyms)
    if declared is None:
        message = (
            "base_model_name_or_path is empty, so nobody can tell for which base it was trained. Set it, or push "
            "with the override other_base (--other-base)."
        )
        return Origin(refusal(Refusal.BASE_UNDECLARED, message, "base_model_name_or_path"))
    if declared in names:
        return Origin()
    if _HUB_NAME.fullmatch(declared) is None:
        message = f"The base is declared as the path {shown(declared)}; only the shapes were compared."
        return Origin(warnings=(("base_is_a_path", message),))
    message = (
        f"base_model_name_or_path is {shown(declared)}; this base is known as {', '.join(names)}. Add the name to "
        "the base's synonyms (base add … --synonym) if it is the same model, or push with the override other_base "
        "(--other-base)."
    )
    return Origin(refusal(Refusal.BASE_MISMATCH, message, "base_model_name_or_path"))
