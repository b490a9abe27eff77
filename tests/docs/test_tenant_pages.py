"""The tenant plane's page names every endpoint and every field that it takes."""

import re
from pathlib import Path

import msgspec
import pytest

from hotset.gateway.endpoints import ENDPOINTS
from hotset.gateway.fields import ChatBody, CompletionBody
from hotset.gateway.jobs.pages import JOBS
from hotset.gateway.responses import ResponseBody

API = (Path(__file__).parents[2] / "docs" / "tenant-api.md").read_text()


def rows(page: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("| `")
    ]


def named(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


@pytest.mark.parametrize("body", [ChatBody, CompletionBody])
def test_every_field_is_documented_and_no_other(body: type[msgspec.Struct]) -> None:
    place = 1 if body is ChatBody else 2
    documented = {name for row in rows(API) if len(row) == 4 and row[place] and named(row[0]) for name in named(row[0])}
    assert documented == {field.encode_name for field in msgspec.structs.fields(body)}


def test_every_field_of_a_response_is_documented_and_no_other() -> None:
    table = API.partition("| field of a response |")[2].partition("\n\n")[0]
    documented = [name for row in rows(table) for name in named(row[0])]
    assert sorted(documented) == sorted(field.encode_name for field in msgspec.structs.fields(ResponseBody))


def test_every_endpoint_is_documented() -> None:
    for path in (*ENDPOINTS, JOBS, "/v1/models", "/healthz", "/readyz"):
        assert path in API
