"""The page on the admin API names every endpoint, and no other."""

import re
from pathlib import Path

from hotset.control.api import PREFIX, admin_endpoints
from tests.support.installation import installation, run

PAGE = Path(__file__).parents[2] / "docs" / "admin-api.md"
CALL = re.compile(r"^\| `(GET|POST|PUT|DELETE) ([^`?]+)[^`]*`", re.MULTILINE)
OUTSIDE = {"GET /healthz", "GET /metrics", f"GET {PREFIX}/openapi.json"}


def test_every_endpoint_is_on_the_page_and_the_page_has_no_other(tmp_path: Path) -> None:
    served: set[str] = set(OUTSIDE)

    async def story() -> None:
        async with installation(tmp_path) as inst:
            served.update(plain(f"{row.method} {PREFIX}{row.path}") for row in admin_endpoints(inst.control))

    run(story())
    written = {plain(f"{method} {path}") for method, path in CALL.findall(PAGE.read_text())}
    versions = f"{PREFIX}/adapters/{{}}/{{}}"
    assert {call.replace("…", versions) for call in written} == served


def plain(call: str) -> str:
    """Return a call with the names of its parameters left out."""
    return re.sub(r"\{[^}]*\}", "{}", call)
