"""What a hostile tenant tries: names, fields and headers, and what must be true of every answer.

Runs against any tenant plane that a `HostileTarget` describes: the scripted one of the tests, or a full server.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from urllib.parse import quote

from tests.support.raw_http import Answer, ask, raw_request

#: A name that nobody has; its answers are what every foreign name's answers must equal.
MISSING = "no-such-model-anywhere"


@dataclass
class HostileTarget:
    """A tenant plane and one tenant of it who means harm."""

    port: int
    token: str
    #: An alias that the tenant may call; its adapter's id; numbers that may be named.
    own_model: str
    own_adapter: str
    own_numbers: tuple[int, ...]
    #: What other tenants have: aliases, adapter ids, engine names, digests.
    foreign_names: tuple[str, ...]
    #: Texts that must appear nowhere the tenant (or whoever reads its metrics) can look.
    secrets: tuple[str, ...]
    #: Engine names, digests and paths of the tenant's own versions.
    internal_names: tuple[str, ...] = ()
    #: All that the server wrote about this tenant so far: logs, metrics.
    written: Callable[[], Iterable[str]] = field(default=lambda: ())


def hostile_names(target: HostileTarget) -> list[str]:
    """Names that must be nothing to this tenant."""
    own = target.own_model
    beyond = max(target.own_numbers, default=0) + 1
    numbers = [f"{own}@{trick}" for trick in NUMBER_TRICKS] + [f"{own}@{beyond}"]
    foreign = [f"{name}{tail}" for name in target.foreign_names for tail in ("", "@1", "@2", "@active")]
    disguised = [trick.format(own=own, foreign=name) for trick in DISGUISES for name in target.foreign_names[:2]]
    look_alikes = [own.replace(plain, other) for plain, other in LOOK_ALIKES if plain in own]
    case = [own.upper(), own.title(), own.swapcase()]
    rest = [*target.internal_names, *PATHS, target.own_adapter, f"{target.own_adapter}@1"]
    names = [*numbers, *foreign, *disguised, *look_alikes, *case, *rest]
    own_names = {own, *(f"{own}@{number}" for number in target.own_numbers)}
    return [name for name in dict.fromkeys(names) if name not in own_names]


NUMBER_TRICKS = (
    *("", "0", "-1", "+1", "01", "1.0", "1e0", "0x1", " 1", "1 ", "1@1", "@1", "latest", "active", "canary", "*"),
    *("\u0661", "\u00b2", "\uff11", "1\u0000", "1\n", "1%00", "99999999999999999999999", "1/..", "sha256:00"),
)

DISGUISES = (
    *("{own}/../{foreign}", "../{foreign}", "./{foreign}", "/{foreign}", "{foreign}/", "{foreign}\u0000", " {foreign}"),
    *("{own},{foreign}", "{own};{foreign}", "{own}\n{foreign}", "{own}\u0000{foreign}", "{own}@1@{foreign}"),
    *(
        "{own}%2f..%2f{foreign}",
        "{own}\\..\\{foreign}",
        "{foreign}#{own}",
        "{foreign}?model={own}",
        "{own} OR {foreign}",
    ),
    *(
        "model:{foreign}",
        "hosted_vllm/{foreign}",
        "openai/{foreign}",
        "{foreign}\u200b",
        "\ufeff{foreign}",
        "{foreign}.",
    ),
)

LOOK_ALIKES = (
    *(("o", "\u043e"), ("o", "0"), ("p", "\u0440"), ("s", "\u0455"), ("s", "\uff53"), ("u", "\u03c5"), ("t", "\u0442")),
    *(("a", "\u0430"), ("e", "\u0435"), ("i", "\u0456"), ("i", "\u0131"), ("l", "1"), ("-", "\u2010"), ("-", "_")),
)

PATHS = (
    *(
        "",
        ".",
        "..",
        "/",
        "//",
        "/etc/passwd",
        "../../etc/passwd",
        "file:///etc/passwd",
        "C:\\x",
        "~",
        "\u0000",
        "%2e%2e",
    ),
    *(
        "http://127.0.0.1:8081/admin/v1",
        "hs-00000000000000000000000000000000",
        "sha256:" + "0" * 64,
        "*",
        "%",
        "{}",
        "[]",
    ),
    *(
        "default",
        "base",
        "null",
        "None",
        "lora",
        "x" * 5000,
        "\ud83d\ude00",
        "\u202e",
        "' OR 1=1 --",
        "${jndi:ldap://x}",
    ),
)


#: Fields that choose an adapter, control an engine or make it fetch something: a 400 that names the field.
HOSTILE_FIELDS: tuple[tuple[dict[str, object], str], ...] = (
    ({"lora_path": "/etc"}, "lora_path"),
    ({"lora_name": "x"}, "lora_name"),
    ({"lora_request": {"lora_name": "x"}}, "lora_request"),
    ({"adapter": "x"}, "adapter"),
    ({"adapter_id": "x"}, "adapter_id"),
    ({"engine_name": "hs-0"}, "engine_name"),
    ({"tenant": "globex"}, "tenant"),
    ({"base_model": "x"}, "base_model"),
    ({"cache_salt": "x"}, "cache_salt"),
    ({"request_id": "x"}, "request_id"),
    ({"priority": -1}, "priority"),
    ({"chat_template": "{{ x }}"}, "chat_template"),
    ({"chat_template_kwargs": {}}, "chat_template_kwargs"),
    ({"add_generation_prompt": False}, "add_generation_prompt"),
    ({"documents": []}, "documents"),
    ({"mm_processor_kwargs": {}}, "mm_processor_kwargs"),
    ({"guided_json": {}}, "guided_json"),
    ({"guided_decoding_backend": "x"}, "guided_decoding_backend"),
    ({"structured_outputs": {}}, "structured_outputs"),
    ({"kv_transfer_params": {}}, "kv_transfer_params"),
    ({"vllm_xargs": {}}, "vllm_xargs"),
    ({"logits_processors": ["os.system"]}, "logits_processors"),
    ({"prompt_logprobs": 1}, "prompt_logprobs"),
    ({"ignore_eos": True}, "ignore_eos"),
    ({"min_tokens": 10**9}, "min_tokens"),
    ({"stop_token_ids": [1]}, "stop_token_ids"),
    ({"allowed_token_ids": [1]}, "allowed_token_ids"),
    ({"use_beam_search": True}, "use_beam_search"),
    ({"api_base": "http://127.0.0.1"}, "api_base"),
    ({"api_key": "x"}, "api_key"),
    ({"base_url": "http://127.0.0.1"}, "base_url"),
    ({"extra_body": {"lora_path": "x"}}, "extra_body"),
    ({"extra_headers": {"authorization": "x"}}, "extra_headers"),
    ({"metadata": {"tenant": "globex"}}, "metadata"),
    ({"fallbacks": ["x"]}, "fallbacks"),
    ({"mock_response": "x"}, "mock_response"),
    ({"Lora_Path": "x"}, "Lora_Path"),
    ({"LORA_PATH": "x"}, "LORA_PATH"),
    ({"lora-path": "x"}, "lora-path"),
    ({"MODEL": "x"}, "MODEL"),
    ({"model\u0000": "x"}, r"model\x00"),
    ({"__proto__": {}}, "__proto__"),
    ({"\u043codel": "x"}, r"\u043codel"),
    ({"tools": [{"type": "function"}]}, "tools"),
    ({"audio": {}}, "audio"),
    ({"modalities": ["audio"]}, "modalities"),
    ({"web_search_options": {}}, "web_search_options"),
    ({"store": True}, "store"),
    ({"stream_options": {"include_usage": True, "lora_path": "x"}, "stream": True}, "stream_options.lora_path"),
    ({"response_format": {"type": "text", "lora_path": "x"}}, "response_format.lora_path"),
    ({"messages": [{"role": "user", "content": "x", "lora_path": "x"}]}, "messages[0].lora_path"),
    ({"messages": [{"role": "user", "content": [{"type": "text", "text": "x", "lora_path": "x"}]}]}, None),
    ({"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://[::1]/"}}]}]}, None),
    ({"messages": [{"role": "user", "content": [{"type": "video_url", "video_url": {"url": "file:///"}}]}]}, None),
    ({"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]}, None),
    ({"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "x"}}]}]}, None),
)  # type: ignore[assignment]

#: Headers that must change nothing.
HOSTILE_HEADERS: tuple[dict[str, str], ...] = (
    {"x-request-id": "mine"},
    {"x-tenant": "globex", "x-tenant-id": "globex", "hotset-tenant": "globex", "x-forwarded-user": "globex"},
    {"hotset-route": "contracts@1", "hotset-lane": "hot", "hotset-epoch": "999"},
    {"x-forwarded-for": "127.0.0.1", "x-real-ip": "127.0.0.1", "forwarded": "for=127.0.0.1", "via": "1.1 me"},
    {"x-original-url": "/admin/v1/tenants", "x-rewrite-url": "/admin/v1/tenants", "x-http-method-override": "DELETE"},
    {"openai-organization": "globex", "openai-project": "globex"},
    {"x-api-key": "hs_globex_0123456789abcdef", "api-key": "hs_globex_0123456789abcdef"},
    {"cookie": "tenant=globex; key=hs_globex_0123456789abcdef"},
    {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "baggage": "tenant=globex"},
    {"host": "admin.internal", "x-forwarded-host": "admin.internal"},
    {"cache-salt": "x", "x-lora-path": "/etc", "x-priority": "1"},
    {"accept-encoding": "gzip, br", "te": "trailers", "range": "bytes=0-1", "if-none-match": "*"},
)


def chat_body(model: str, **fields: object) -> bytes:
    """A chat request's body."""
    return json.dumps({"model": model, "messages": [{"role": "user", "content": "hi"}], **fields}).encode()


async def every_way_to_name(target: HostileTarget, name: str) -> list[Answer]:
    """Ask for a model by every door: chat, streamed chat, completion, streamed completion, retrieval."""
    text = {"model": name, "prompt": "hi"}
    path = "/v1/models/" + quote(name.encode("utf-8", "surrogatepass"), safe="")
    requests = [
        raw_request(chat_body(name), token=target.token),
        raw_request(chat_body(name, stream=True), token=target.token),
        raw_request(json.dumps(text).encode(), token=target.token, path="/v1/completions"),
        raw_request(json.dumps({**text, "stream": True}).encode(), token=target.token, path="/v1/completions"),
        raw_request(b"", token=target.token, method="GET", path=path),
    ]
    return [await ask(target.port, request) for request in requests]


def normalised(answer: Answer) -> tuple[int, tuple[tuple[str, str], ...], str]:
    """An answer without what is different in each: its id, and the second it was given in."""
    request_id = answer.headers.get("x-request-id", "")
    headers = {name: value for name, value in answer.headers.items() if name not in ("x-request-id", "date")}
    return answer.status, tuple(sorted(headers.items())), answer.body.decode().replace(request_id, "ID")


def check_keeps_secrets(target: HostileTarget, answers: Iterable[Answer]) -> None:
    """Assert that no answer holds anything of another tenant or of the inside."""
    for answer in answers:
        shown = answer.body.decode("utf-8", "replace") + repr(answer.headers)
        for secret in target.secrets:
            assert secret not in shown, (secret, shown)


def check_written_nothing(target: HostileTarget) -> None:
    """Assert that nothing of another tenant was written on this tenant's account."""
    for text in target.written():
        for secret in target.secrets:
            assert secret not in text, (secret, text[:2000])
