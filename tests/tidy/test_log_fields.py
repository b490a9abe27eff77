"""What is given to a log record is in its line: a field that the log does not know would be left out in silence."""

import ast

from hotset.telemetry.names import LOG_EXTRAS
from tests.tidy.tree import sources


def fields_of(call: ast.Call) -> set[str]:
    extras = [given.value for given in call.keywords if given.arg == "extra" and isinstance(given.value, ast.Dict)]
    return {str(key.value) for extra in extras for key in extra.keys if isinstance(key, ast.Constant)}


def test_every_field_that_is_logged_is_known_to_the_log() -> None:
    calls = [node for file in sources("src") for node in ast.walk(ast.parse(file.text)) if isinstance(node, ast.Call)]
    logged = {field for call in calls for field in fields_of(call)}
    assert {"worker", "reason"} <= logged
    assert logged <= set(LOG_EXTRAS)
