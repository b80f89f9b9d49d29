"""What goes over the wire: marshmallow schemas for what people send and for what is sent, and the one serialiser."""

import json
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import cache
from operator import attrgetter
from typing import Any

from marshmallow import EXCLUDE, Schema, ValidationError, fields

from . import settings
from .errors import BadRequest, Invalid, Problem, SettingError
from .hits import Json, Packet
from .kinds import Kind
from .snapshot import Row

HOPS_READ = 16  # more entries of a Via header than this change nothing


class Checked(fields.Field[Any]):
    """A field that takes what a setting of that kind takes: text is never a number, true never 1."""

    def __init__(self, kind: Kind, **kwargs: Any) -> None:
        missing: dict[str, Any] = {
            "required": f"missing: expected {kind.expected}",
            "null": f"expected {kind.expected}, found nothing",
        }
        super().__init__(error_messages=missing, **kwargs)
        self.kind = kind

    def _deserialize(self, value: Any, attr: str | None, data: Mapping[str, Any] | None, **kwargs: Any) -> Any:
        try:
            return self.kind.check(value)
        except SettingError as exc:
            raise ValidationError(f"expected {exc}, found {settings.described(value)}") from None


class SearchRequest(Schema):
    class Meta:
        unknown = EXCLUDE

    query = Checked(settings.QUERY, required=True)
    n_results = Checked(settings.N_RESULTS, allow_none=True, load_default=None)
    timeout_s = Checked(settings.SECONDS, allow_none=True, load_default=None)


class Body(Schema):
    """The base of what is sent: attributes are read as they are, which halves the cost of a dump."""

    def get_attribute(self, obj: Any, attr: str, default: Any) -> Any:
        return _getter(attr)(obj)


@cache
def _getter(attr: str) -> Callable[[Any], Any]:
    return attrgetter(attr)


class Sent(fields.Field[Any]):
    """An attribute sent as it is: its type was given to it where it was made. An answer has a hundred of them."""

    def serialize(self, attr: str, obj: Any, accessor: Any = None, **kwargs: Any) -> Any:
        return _getter(self.attribute or attr)(obj)


class Moment(fields.Field[datetime]):
    """ISO 8601 in UTC, or null."""

    def _serialize(self, value: datetime | None, attr: str | None, obj: Any, **kwargs: Any) -> str | None:
        return None if value is None else iso(value)


class HitBody(Body):
    store = Sent()
    id = Sent(attribute="hit.id")
    content = Sent(attribute="hit.content")
    score = Sent()
    store_rank = Sent()
    base_relevance = Sent(attribute="hit.base_relevance")
    native_score = Sent(attribute="hit.native_score")
    raw_distance = Sent(attribute="hit.raw_distance")
    metadata = Sent(attribute="hit.metadata")


class SkippedBody(Body):
    name = fields.String()
    kind = fields.String(attribute="failure.kind")
    reason = fields.String(attribute="failure.reason")
    retry_at = Moment(attribute="failure.retry_at")


class WarnedBody(Body):
    name = fields.String()
    reason = fields.String()


class AskedBody(Body):
    name = Sent()
    weight = Sent()
    ms = fields.Function(lambda asked: round(asked.ms, 1))
    returned = Sent()
    floored = Sent()


class PacketBody(Body):
    query = fields.String()
    hits = fields.List(fields.Nested(HitBody))
    stores_searched = fields.List(fields.String())
    skipped = fields.List(fields.Nested(SkippedBody))
    warnings = fields.List(fields.Nested(WarnedBody))
    k = fields.Integer()
    stores = fields.List(fields.Nested(AskedBody))
    took_ms = fields.Function(lambda packet: round(packet.took_ms, 1))


class HealthBody(Body):
    calls = fields.Integer()
    failures = fields.Integer()
    last_ms = fields.Function(lambda tally: _tenths(tally.last_ms))
    avg_ms = fields.Function(lambda tally: _tenths(tally.avg_ms))
    last_error = fields.String(allow_none=True)
    failing_since = Moment()
    suspended_until = Moment()


class StoreBody(Body):
    name = fields.String(attribute="entry.name")
    type = fields.String(attribute="entry.type")
    url = fields.String(attribute="entry.url")
    weight = fields.Function(lambda row: getattr(row.entry, "weight", None))
    floor = fields.Function(lambda row: getattr(row.entry, "floor", None))
    enabled = fields.Boolean(attribute="entry.enabled")
    managed = fields.Boolean(attribute="entry.managed")
    auth = fields.Function(lambda row: _has_credentials(row))
    timeout_s = fields.Function(lambda row: getattr(row.entry, "timeout_s", None))
    status = fields.String()
    warnings = fields.Function(lambda row: list(getattr(row.entry, "warnings", ())))
    health = fields.Nested(HealthBody, attribute="tally")


class CheckBody(Body):
    ok = fields.Boolean()
    ms = fields.Function(lambda check: _tenths(check.ms))
    hits = fields.Integer()
    looks_like = fields.String(allow_none=True)
    reason = fields.String(allow_none=True)


def _tenths(value: float | None) -> float | None:
    return None if value is None else round(value, 1)


def _has_credentials(row: Row) -> bool:
    entry = row.entry
    return getattr(entry, "token", None) is not None or getattr(entry, "credentials", None) is not None


_search = SearchRequest()
_packet = PacketBody()
_store = StoreBody()
_check = CheckBody()


def search_request(body: Json) -> dict[str, Any]:
    """The arguments of a search out of a request's body; Invalid names each faulty field."""
    loaded: dict[str, Any] = _loaded(body, _search)
    return loaded


def _loaded(body: Json, schema: Schema) -> Any:
    try:
        return schema.load(mapping(body))
    except ValidationError as exc:
        raise Invalid("the request has faults", errors=exc.messages_dict) from None


def mapping(body: Json) -> Mapping[str, Json]:
    """A request's body, which must be a JSON object."""
    if not isinstance(body, Mapping):
        message = f"expected a JSON object, found {settings.described(body)}"
        raise Invalid("the request has faults", errors={"body": [message]})
    return body


def packet_body(packet: Packet) -> dict[str, Json]:
    """The answer of a search; over HTTP and MCP alike."""
    body: dict[str, Json] = _packet.dump(packet)
    for entry in body["skipped"]:
        if entry["retry_at"] is None:
            del entry["retry_at"]
    return body


def store_body(row: Row) -> dict[str, Json]:
    body: dict[str, Json] = _store.dump(row)
    return body


def check_body(check: Any) -> dict[str, Json]:
    body: dict[str, Json] = _check.dump(check)
    return body


def problem_body(problem: Problem) -> dict[str, Json]:
    """The one shape of an error: RFC 9457."""
    body: dict[str, Json] = {
        "type": "about:blank",
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
    }
    if problem.errors:
        body["errors"] = problem.errors
    return body


def iso(moment: datetime) -> str:
    """ISO 8601 in UTC, to the millisecond."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def encode(body: Json) -> bytes:
    """Strict JSON in UTF-8; what JSON cannot hold, which an adapter may bring, becomes text or null."""
    try:
        return _encoded(body)
    except (TypeError, ValueError):
        return _encoded(_plain(body))


def _encoded(body: Json) -> bytes:
    return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8", "replace")


def _plain(value: Json) -> Json:
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(inner) for inner in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (str, int)) else str(value)


class _NotJsonError(ValueError):
    pass


def _refuse_constant(name: str) -> None:
    raise _NotJsonError(name)


def _whole(digits: str) -> float:
    try:
        return int(digits)
    except ValueError:  # more digits than Python reads: JSON all the same, and too much for any field
        return math.inf


def decode(data: bytes) -> Json:
    """A request's body; BadRequest for what is not strict JSON in UTF-8."""
    try:
        return json.loads(data.decode("utf-8-sig"), parse_constant=_refuse_constant, parse_int=_whole)
    except _NotJsonError as exc:
        raise BadRequest(f"the body is not JSON: {exc} is no JSON number") from None
    except json.JSONDecodeError as exc:
        raise BadRequest(f"the body is not JSON: {exc.msg} in line {exc.lineno}, column {exc.colno}") from None
    except (ValueError, RecursionError):
        raise BadRequest("the body is not JSON in UTF-8, or is nested too deep") from None


def hops(via: str) -> tuple[str, ...]:
    """The callosums that a request has passed, out of its Via header."""
    entries = [" ".join(entry.split()) for entry in via.split(",")[:HOPS_READ]]
    return tuple(entry for entry in entries if settings.CALLOSUM_HOP.fullmatch(entry))
