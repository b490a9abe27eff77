"""How soon a revoked key stops working on a whole server while a stream of it is open, and what `--cut` does to that.

``python -m tests.acceptance.revocation [--rounds N]``: each round issues a key, opens a stream with it, revokes it
(half of the rounds with cut), and asks again and again until the first 401. Exit status 0 where each took less than a
second, the plain revocation let the stream finish and the cutting one ended it with an error event.
"""

import argparse
import asyncio
import json
import sys
import tempfile
from pathlib import Path

from hotset.control.actors import LOCAL_ADMIN
from hotset.core.clock import SystemClock
from hotset.core.ids import TenantId
from hotset.engines.settings import EngineSettings
from tests.support.live_server import LiveServer, live_server

ACME = TenantId("acme")
CLOCK = SystemClock()
_BOUND_S = 1.0


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def ask(live: LiveServer, token: str, *, max_tokens: int, stream: bool) -> tuple[Connection, str]:
    """Send a request; return the connection, read past the status line, and the status."""
    body = json.dumps(
        {"model": "red", "prompt": "a", "max_tokens": max_tokens, "stream": stream, "temperature": 1, "seed": 1}
    ).encode()
    head = (
        f"POST /v1/completions HTTP/1.1\r\nhost: h\r\nauthorization: Bearer {token}\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    reader, writer = await asyncio.open_connection("127.0.0.1", live.port)
    writer.write(head.encode() + body)
    return (reader, writer), (await reader.readuntil(b"\r\n")).decode().split(" ")[1]


async def one_round(live: LiveServer, *, cut: bool) -> tuple[float, str]:
    """Return the seconds from the command's start to the first refusal, and how the open stream ended."""
    control = live.server.control
    issued = await control.keys.issue(LOCAL_ADMIN, ACME)
    (reader, writer), status = await ask(live, issued.token, max_tokens=900, stream=True)
    assert status == "200"
    await reader.readuntil(b"data: ")
    ending = asyncio.create_task(reader.read())
    began_s = CLOCK.monotonic_s()
    revoking = asyncio.create_task(control.keys.revoke(LOCAL_ADMIN, issued.row.key, cut=cut))
    while (await ask(live, issued.token, max_tokens=1, stream=False))[1] != "401":
        assert CLOCK.monotonic_s() - began_s < 10
    seconds = CLOCK.monotonic_s() - began_s
    await revoking
    text = (await ending).decode()
    writer.close()
    if "data: [DONE]" in text:
        return seconds, "finished"
    return seconds, "cut with an error event" if '"code":"revoked"' in text else "ended otherwise"


async def check(num_rounds: int) -> int:
    """Run all rounds; return the exit status."""
    engine = EngineSettings(dtype="float32", num_slots=2, rank_max=16, kv_bytes_max=64 << 20, num_threads=1)
    with tempfile.TemporaryDirectory(prefix="hotset-revocation-") as root:
        async with live_server(Path(root), {"acme": ("red",)}, engine) as live:
            rounds = [(cut, *await one_round(live, cut=cut)) for cut in (False, True) for _ in range(num_rounds)]
    for cut, seconds, ending in rounds:
        print(f"{'cut' if cut else 'plain':5} refused after {seconds * 1000:6.1f} ms; the open stream {ending}")
    wanted = {False: "finished", True: "cut with an error event"}
    fine = all(seconds < _BOUND_S and ending == wanted[cut] for cut, seconds, ending in rounds)
    print(f"slowest refusal {max(seconds for _, seconds, _ in rounds) * 1000:.0f} ms; {'ok' if fine else 'FAILED'}")
    return 0 if fine else 1


def main() -> int:
    """Parse arguments and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    return asyncio.run(check(parser.parse_args().rounds))


if __name__ == "__main__":
    sys.exit(main())
