"""A job as its tenant sees it: as itself under ``/v1/jobs``, and as the response object it stands for."""

from typing import Any

import msgspec

from hotset.admission.job_life import UNENDED, JobState
from hotset.gateway.endpoints import ENDPOINTS_BY_NAME, RESPONSES
from hotset.gateway.jobs.book import JobResult, KeptJob
from hotset.gateway.responses import response_object

#: A job that has not ended is worth asking for again after so many seconds.
POLL_AFTER = (b"retry-after", b"1")
_encode = msgspec.json.encode
_NOTHING = JobResult()


def job_json(kept: KeptJob) -> bytes:
    """Return the job object: where the job stands, and, once it has ended, its answer or its error."""
    row, result = kept.row, kept.result or _NOTHING
    is_response = row.endpoint == RESPONSES.name
    answer = _response(kept) if is_response and row.life.state is JobState.COMPLETED else result.answer
    return _encode(
        {
            "id": row.job,
            "object": "job",
            "status": row.life.state.value,
            "model": row.model,
            "endpoint": ENDPOINTS_BY_NAME[row.endpoint].path,
            "route": result.route or None,
            "created_at": int(row.created_at_s),
            "ended_at": None if row.life.ended_at_s is None else int(row.life.ended_at_s),
            "expires_at": int(row.life.expires_at_s),
            "attempts": row.life.attempts,
            "answer": answer,
            "error": result.error,
        }
    )


def response_json(kept: KeptJob) -> bytes:
    """Return the response object of a job that came in as a background response."""
    return _encode(_response(kept))


def is_unended(kept: KeptJob) -> bool:
    """Whether the job's client is to come back for more."""
    return kept.row.life.state in UNENDED


def _response(kept: KeptJob) -> dict[str, Any]:
    row, result = kept.row, kept.result or _NOTHING
    return response_object(
        response_id=row.job,
        state=row.life.state,
        created_at_s=row.created_at_s,
        ended_at_s=row.life.ended_at_s,
        body=kept.body,
        chat=bytes(result.answer) if row.life.state is JobState.COMPLETED else None,
        error=None if result.error is None else msgspec.structs.asdict(result.error),
    )
