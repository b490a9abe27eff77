"""The OpenAPI document of the admin API, made from the same table as its routes."""

import re
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from hotset.control.answers import ProblemAnswer
from hotset.control.endpoints import Endpoint
from hotset.control.problems import PROBLEM_TYPE
from hotset.control.streaming import NDJSON_TYPE

_PARAMETER = re.compile(r"\{(\w+)(?::path)?\}")
_SCHEMAS = "#/components/schemas/"


def openapi_document(endpoints: Iterable[Endpoint], prefix: str, version: str) -> dict[str, Any]:
    """Return the document for these endpoints, each under `prefix`."""
    table = list(endpoints)
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in table:
        path = prefix + _PARAMETER.sub(r"{\1}", endpoint.path)
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Hotset admin API", "version": version},
        "paths": paths,
        "components": {
            "schemas": _schemas(table),
            "securitySchemes": {"operator": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"operator": []}],
    }


def _schemas(table: list[Endpoint]) -> dict[str, Any]:
    kinds: dict[type[BaseModel], None] = {ProblemAnswer: None}
    for endpoint in table:
        kinds |= dict.fromkeys(kind for kind in (endpoint.body, endpoint.answer) if kind is not None)
    _, document = models_json_schema([(kind, "serialization") for kind in kinds], ref_template=_SCHEMAS + "{model}")
    return document["$defs"]


def _operation(endpoint: Endpoint) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": endpoint.handle.__qualname__.replace(".<locals>.", ".").replace("_endpoints", ""),
        "parameters": [*_path_parameters(endpoint), *_query_parameters(endpoint)],
        "responses": {
            str(endpoint.status): _success(endpoint),
            "default": {"description": "An error", "content": {PROBLEM_TYPE: {"schema": _ref(ProblemAnswer)}}},
        },
    }
    if endpoint.body is not None:
        operation["requestBody"] = {"content": {"application/json": {"schema": _ref(endpoint.body)}}}
    elif endpoint.method == "PUT":
        binary = {"schema": {"type": "string", "format": "binary"}}
        operation["requestBody"] = {"content": {"application/octet-stream": binary}}
    return operation


def _success(endpoint: Endpoint) -> dict[str, Any]:
    if endpoint.answer is None:
        return {"description": "Done"}
    content: dict[str, Any] = {"application/json": {"schema": _ref(endpoint.answer)}}
    if endpoint.is_long:
        content[NDJSON_TYPE] = {"schema": {"type": "string"}}
    return {"description": "The answer", "content": content}


def _path_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _PARAMETER.findall(endpoint.path)
    ]


def _query_parameters(endpoint: Endpoint) -> list[dict[str, Any]]:
    return [{"name": name, "in": "query", "schema": {"type": kind}} for name, kind in endpoint.query.items()]


def _ref(kind: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _SCHEMAS + kind.__name__}
