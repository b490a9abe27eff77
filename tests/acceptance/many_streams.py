"""1,000 concurrent streams over three tenants, a tenth cut off by their clients: nothing leaks, no route is wrong.

``python -m tests.acceptance.many_streams [--requests N] [--seed S]``: a whole server over real sockets with the
embedded engine in float32. Each stream is compared with the same model asked alone. Afterwards leases, requests in
flight, KV blocks, tasks and file handles are back where they were. Exit status 0 where all of that holds.
"""

import argparse
import asyncio
import gc
import json
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from hotset.engines.settings import EngineSettings
from tests.support.live_server import LiveServer, live_server

ADAPTERS = {"acme": ("red", "blue", "green"), "globex": ("red", "sun"), "initech": ("blue", "moon", "star")}
_TOKENS = 24
_WAVE = 1000


@dataclass(frozen=True, slots=True)
class Ask:
    """One stream: who asks which model, and after how many events its client leaves (None: it stays)."""

    tenant: str
    model: str
    leaves_after: int | None


async def read_stream(live: LiveServer, ask: Ask) -> tuple[str, str]:
    """Return how the stream went (``whole``, ``left`` or an error) and its text."""
    body = json.dumps(
        {
            "model": ask.model,
            "messages": [{"role": "user", "content": "Tell me about the weather."}],
            "temperature": 0,
            "max_tokens": _TOKENS,
            "stream": True,
        }
    ).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {live.tokens[ask.tenant]}\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", live.port)
    try:
        writer.write(head.encode() + body)
        status = (await reader.readuntil(b"\r\n")).decode().split(" ")[1]
        if status != "200":
            return f"status {status}", (await reader.read(4096)).decode(errors="replace")
        return await read_events(reader, ask.leaves_after)
    finally:
        writer.close()
        await writer.wait_closed()


async def read_events(reader: asyncio.StreamReader, leaves_after: int | None) -> tuple[str, str]:
    """Read events to the end, or leave after some."""
    text, num_events = "", 0
    while line := await reader.readline():
        if not line.startswith(b"data: "):
            continue
        if line == b"data: [DONE]\n":
            return "whole", text
        event = json.loads(line[6:])
        if "error" in event:
            return f"error {event['error']['code']}", text
        for choice in event["choices"]:
            text += choice["delta"].get("content") or ""
        num_events += 1
        if leaves_after is not None and num_events >= leaves_after:
            return "left", text
    return "ended early", text


def num_handles() -> int:
    """File handles that this process holds open."""
    return len(list(Path("/proc/self/fd").iterdir()))


async def settle(live: LiveServer) -> None:
    """Wait until the server has noticed every departure, bounded."""
    async with asyncio.timeout(30):
        while live.server.tenant_app.num_in_flight or live.agent.num_leases():
            await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)
    gc.collect()


async def state_of(live: LiveServer) -> dict[str, int]:
    """Everything that must come back to where it was."""
    inventory = await live.agent.inventory()
    return {
        "requests in flight": live.server.tenant_app.num_in_flight,
        "leases": live.agent.num_leases(),
        "requests in the engine": len(inventory.running),
        "KV blocks": inventory.kv_blocks_used,
        "tasks": len(asyncio.all_tasks()),
        "file handles": num_handles(),
    }


async def check(num_requests: int, seed: int) -> int:
    """Run the whole check; return the exit status."""
    engine = EngineSettings(dtype="float32", num_slots=9, rank_max=16, kv_bytes_max=64 << 20, num_threads=2)
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="hotset-streams-") as root:
        async with live_server(Path(root), ADAPTERS, engine) as live:
            models = [(tenant, model) for tenant, names in ADAPTERS.items() for model in (*names, "tiny")]
            alone = {ask: (await read_stream(live, Ask(*ask, None)))[1] for ask in models}
            await settle(live)
            before = await state_of(live)
            asks = [
                Ask(*rng.choice(models), rng.randint(1, _TOKENS - 4) if rng.random() < 0.1 else None)
                for _ in range(num_requests)
            ]
            began_s = time.monotonic()
            answers = [
                answer
                for first in range(0, num_requests, _WAVE)
                for answer in await asyncio.gather(*(read_stream(live, ask) for ask in asks[first : first + _WAVE]))
            ]
            seconds = time.monotonic() - began_s
            await settle(live)
            after = await state_of(live)
    return report(asks, answers, alone, before=before, after=after, seconds=seconds)


def report(
    asks: list[Ask],
    answers: list[tuple[str, str]],
    alone: dict[tuple[str, str], str],
    *,
    before: dict[str, int],
    after: dict[str, int],
    seconds: float,
) -> int:
    """Print what happened and return the exit status."""
    endings = Counter(ending for ending, _ in answers)
    wrong: list[tuple[Ask, str, str]] = []
    for ask, (ending, text) in zip(asks, answers, strict=True):
        expected = alone[ask.tenant, ask.model]
        if text != (expected if ending == "whole" else expected[: len(text)]):
            wrong.append((ask, text, expected))
    num_staying = sum(ask.leaves_after is None for ask in asks)
    print(f"{len(asks)} streams in {seconds:.1f} s over {len(alone)} models; endings: {dict(endings)}")
    print(
        f"distinct answers alone: {len(set(alone.values()))} of {len(alone)}; answers not on their route: {len(wrong)}"
    )
    for name, count in before.items():
        print(f"  {name}: {count} before, {after[name]} after")
    for ask, text, expected_text in wrong[:3]:
        print(f"  wrong: {ask}: {text!r} instead of {expected_text!r}")
    leaks = [name for name in before if after[name] > before[name]]
    # A client that meant to leave may find a short answer whole.
    fine = not wrong and not leaks and set(endings) <= {"whole", "left"} and endings["whole"] >= num_staying
    print("ok" if fine else f"FAILED: leaks {leaks}, {num_staying} were to stay")
    return 0 if fine else 1


def main() -> int:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    return asyncio.run(check(arguments.requests, arguments.seed))


if __name__ == "__main__":
    sys.exit(main())
