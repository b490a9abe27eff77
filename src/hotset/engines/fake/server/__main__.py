"""``python -m hotset.engines.fake.server``: one served fake engine; `options` has its flags."""

import asyncio
import sys

from hotset.engines.fake.server.options import parse_options
from hotset.engines.fake.server.running import serve


async def main() -> int:
    """Serve; return the process's exit status."""
    cause = await serve(parse_options(sys.argv[1:]), asyncio.Event())
    if cause:
        sys.stderr.write(f"EngineDeadError: {cause}\n")
    return 1 if cause else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
