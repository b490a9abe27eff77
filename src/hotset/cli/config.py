"""The only reader of configuration: defaults, then hotset.yaml, then ``HOTSET_*``, then flags; later ones win.

``HOTSET_HOME`` is the state folder, ``HOTSET_URL`` and ``HOTSET_TOKEN`` name a server elsewhere, ``HOTSET_CONFIG`` the
file. ``HOTSET_SECTION_KEY`` sets one key, such as ``HOTSET_SERVER_TENANT_PORT``. All mistakes are reported at once.
"""

import difflib
import os
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import platformdirs
import yaml
from pydantic import ValidationError

from hotset.cli.sections import SECTIONS, file_model
from hotset.cli.settings import Remote, Settings
from hotset.control.declaring import Desired, DesiredAdapter, DesiredBase, DesiredGrant, DesiredQuota, DesiredTerms
from hotset.control.declaring_pools import DesiredPool
from hotset.core.errors import ConfigError
from hotset.core.ids import AdapterId, parse_alias, parse_base_name, parse_pool, parse_tenant

_LISTS = ("bases", "tenants", "pools", "adapters", "grants")
_PREFIX = "HOTSET_"

#: Dotted key → value, such as ``server.tenant_port``.
Flags = Mapping[str, object]


@dataclass
class _Values:
    """What was given, and by whom."""

    content: dict[str, Any] = field(default_factory=dict[str, Any])
    #: Dotted key → the variable or flag that set it; the file otherwise.
    givers: dict[str, str] = field(default_factory=dict[str, str])
    mistakes: list[str] = field(default_factory=list[str])


def read_environment() -> dict[str, str]:
    """Return Hotset's own variables of the environment."""
    return {name: value for name, value in os.environ.items() if name.startswith(_PREFIX)}


def read_settings(
    file: Path | None = None,
    *,
    environment: Mapping[str, str],
    flags: Flags | None = None,
    home: Path | None = None,
) -> Settings:
    """Return the settings of this installation.

    Args:
        file: hotset.yaml; None reads the one that ``HOTSET_CONFIG`` names, or none.
        environment: Variables, as `read_environment` gives them.
        flags: What the command line set, by dotted key.
        home: The state folder, before ``HOTSET_HOME`` and the platform's data folder.

    Raises:
        ConfigError: one line for each mistake, with the file, variable or flag and the key.
    """
    named = environment.get("HOTSET_CONFIG")
    file = file or (Path(named) if named else None)
    values = _Values()
    if file is not None:
        _read_file(file, values)
    _read_variables(environment, values)
    _read_flags(flags or {}, values)
    remote = _read_remote(environment, values)
    model = _validate(values, file)
    if values.mistakes or model is None:
        raise ConfigError("\n".join(["The configuration is not valid:", *(f"  {line}" for line in values.mistakes)]))
    rooms = {name: kind(**getattr(model, name).model_dump()) for name, (kind, _) in SECTIONS.items()}
    where = home or Path(environment.get("HOTSET_HOME") or platformdirs.user_data_path("hotset"))
    return Settings(home=where.expanduser().absolute(), file=file, remote=remote, desired=_desired(model), **rooms)


def shown(settings: Settings) -> dict[str, Any]:
    """Return the settings as plain values with secrets left out."""
    desired = settings.desired
    quotas = {quota.tenant: quota.parts for quota in desired.quotas}
    terms = {each.tenant: each.parts for each in desired.terms}
    return {
        "home": str(settings.home),
        "file": str(settings.file) if settings.file else None,
        "remote": {"url": settings.remote.url, "token": "[redacted]"} if settings.remote else None,
        **{name: asdict(getattr(settings, name)) for name in SECTIONS},
        "bases": [{"name": base.name, "folder": str(base.folder)} for base in desired.bases],
        "tenants": [
            {"tenant": tenant, **quotas.get(tenant, {}), **terms.get(tenant, {})} for tenant in desired.tenants
        ],
        "pools": [asdict(pool) for pool in desired.pools],
        "adapters": [{"adapter": str(entry.adapter), "folder": str(entry.folder)} for entry in desired.adapters],
        "grants": [
            {
                "tenant": grant.tenant,
                "alias": grant.alias,
                "adapter": grant.adapter and str(grant.adapter),
                "base": grant.base,
            }
            for grant in desired.grants
        ],
    }


class _StrictLoader(yaml.SafeLoader):
    """YAML in which a key that stands twice is a mistake, not a silent choice of the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                continue  # refused below
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"{key!r} stands twice", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _read_file(file: Path, values: _Values) -> None:
    try:
        content = yaml.load(file.read_text(encoding="utf-8"), _StrictLoader)  # noqa: S506 - a SafeLoader
    except (OSError, UnicodeDecodeError) as error:
        values.mistakes.append(f"{file}: can't be read: {error}")
        return
    except yaml.MarkedYAMLError as error:
        where = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        values.mistakes.append(f"{file}{where}: is not valid YAML: {error.problem}")
        return
    except yaml.YAMLError as error:  # of a character that may not stand in any YAML
        values.mistakes.append(f"{file}: is not valid YAML: {error}")
        return
    if content is None:
        return
    if not isinstance(content, dict):
        values.mistakes.append(f"{file}: expected a mapping of sections")
        return
    values.content = content


def _read_variables(environment: Mapping[str, str], values: _Values) -> None:
    for name, text in sorted(environment.items()):
        section, _, key = name.removeprefix(_PREFIX).lower().partition("_")
        if section not in SECTIONS or not key:
            continue
        try:
            _set(values, section, key, yaml.safe_load(text) if text else None, name)
        except yaml.YAMLError:
            values.mistakes.append(f"{name}: is not valid YAML: put the value into quotes")


def _read_flags(flags: Flags, values: _Values) -> None:
    for dotted, value in flags.items():
        if value is not None:
            section, _, key = dotted.partition(".")
            _set(values, section, key, value, f"--{key.replace('_', '-')}")


def _set(values: _Values, section: str, key: str, value: object, giver: str) -> None:
    if values.content.get(section) is None:  # not named in the file, or named and left empty
        values.content[section] = {}
    entries = values.content[section]
    if not isinstance(entries, dict):
        return
    entries[key] = value
    values.givers[f"{section}.{key}"] = giver


def _read_remote(environment: Mapping[str, str], values: _Values) -> Remote | None:
    url, token = environment.get("HOTSET_URL"), environment.get("HOTSET_TOKEN")
    if not url:
        return None
    if not url.startswith(("http://", "https://")):
        values.mistakes.append("HOTSET_URL: expected http://HOST:PORT or https://HOST:PORT")
    if not token:
        values.mistakes.append("HOTSET_TOKEN: is needed beside HOTSET_URL: an operator token")
    return Remote(url.rstrip("/"), token or "")


def _validate(values: _Values, file: Path | None) -> Any:
    content = {key: {} if value is None and key in SECTIONS else value for key, value in values.content.items()}
    content = {key: [] if value is None and key in _LISTS else value for key, value in content.items()}
    try:
        return file_model().model_validate(content, context={"root": file.parent if file else Path()})
    except ValidationError as error:
        for mistake in error.errors():
            key = _dotted(mistake["loc"])
            giver = values.givers.get(key, str(file))
            values.mistakes.append(f"{giver}: {key}: {_worded(mistake)}")
    return None


def _dotted(loc: tuple[int | str, ...]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc).removeprefix(".")


def _worded(mistake: Any) -> str:
    kind = mistake["type"]
    if kind == "extra_forbidden":
        close = difflib.get_close_matches(str(mistake["loc"][-1]), list(_known_keys(mistake["loc"])), 1)
        return "unknown setting" + (f"; did you mean {close[0]}?" if close else "")
    if kind == "missing":
        return "is needed"
    text = str(mistake["msg"]).removeprefix("Value error, ")
    return f"{text[0].lower()}{text[1:]}" + ("" if kind == "value_error" else f", not {mistake['input']!r}")


def _known_keys(loc: tuple[int | str, ...]) -> Iterator[str]:
    if len(loc) == 1:
        yield from (*SECTIONS, *_LISTS)
    elif loc[0] in SECTIONS:
        yield from SECTIONS[str(loc[0])][0].__dataclass_fields__


def _desired(model: Any) -> Desired:
    return Desired(
        bases=tuple(DesiredBase(parse_base_name(base.name), base.folder, base.synonyms) for base in model.bases),
        tenants=tuple(parse_tenant(entry.tenant) for entry in model.tenants),
        quotas=tuple(DesiredQuota(parse_tenant(entry.tenant), entry.quota) for entry in model.tenants if entry.quota),
        terms=tuple(DesiredTerms(parse_tenant(entry.tenant), entry.terms) for entry in model.tenants if entry.terms),
        pools=tuple(
            DesiredPool(
                parse_pool(entry.pool),
                parse_base_name(entry.base),
                entry.kind,
                entry.rank_class,
                entry.release_schedule,
                tuple(parse_tenant(tenant) for tenant in entry.tenants),
            )
            for entry in model.pools
        ),
        adapters=tuple(
            DesiredAdapter(AdapterId.parse(entry.adapter), entry.folder, parse_base_name(entry.base), entry.overrides)
            for entry in model.adapters
        ),
        grants=tuple(
            DesiredGrant(
                parse_tenant(grant.tenant),
                parse_alias(grant.alias) if grant.alias else None,
                AdapterId.parse(grant.adapter) if grant.adapter else None,
                parse_base_name(grant.base) if grant.base else None,
            )
            for grant in model.grants
        ),
    )
