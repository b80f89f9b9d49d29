"""Every exception of the package. Foreign exceptions are mapped to these at one border each.

CallosumError
├── ConfigError          the configuration has faults: nothing starts, exit status 78
├── SettingError         a value does not fit its setting: what was expected
├── TokenError           a token, or the pointer to one, is unusable
├── StoreError           one store gave no answer: a kind and a short reason
└── Problem              a request that is not served: an RFC 9457 problem document
    ├── BadRequest       400 (also: unknown store type, a base store that is not ours to change)
    ├── Unauthorized     401
    ├── Forbidden        403
    ├── NotFound         404
    ├── MethodNotAllowed 405, with Allow
    ├── Duplicate        409
    ├── TooLarge         413
    ├── BadMediaType     415
    ├── Invalid          422, with the messages for each field
    ├── NotSaved         503 the overlay could not be written; nothing was changed
    └── Unavailable      503 too busy, or shutting down
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus

KINDS = (
    "timeout",
    "unreachable",
    "http_error",
    "bad_reply",
    "too_large",
    "redirect",
    "suspended",
    "loop",
    "unbound",
)


class CallosumError(Exception):
    """The root: catch this to catch whatever this package raises on purpose."""


class ConfigError(CallosumError):
    """Holds every fault of the configuration, one line each."""

    exit_status = 78  # EX_CONFIG of sysexits.h: service managers are told not to restart after it

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


class SettingError(CallosumError):
    """A value does not fit its setting; the message says what was expected."""


class TokenError(CallosumError):
    """A token or its pointer is unusable; the message never holds the token."""


class StoreError(CallosumError):
    """One store gave no answer. `kind` is one of KINDS; `reason` never echoes bytes of a reply."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(f"{kind}: {reason}")
        self.kind = kind
        self.reason = reason


class Problem(CallosumError):  # noqa: N818 - RFC 9457 calls it so
    """A request that is not served. `errors` maps a field to its messages; `headers` go out with the answer."""

    status = 500

    def __init__(
        self,
        detail: str,
        *,
        errors: Mapping[str, Sequence[str]] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.detail = detail
        self.errors = {field: list(messages) for field, messages in (errors or {}).items()}
        self.headers = dict(headers or {})

    def __str__(self) -> str:
        """The fields with their messages on one line, or the detail where no field is named."""
        told = [f"{field}: {message}" if field else message for field, all_ in self.errors.items() for message in all_]
        return "; ".join(told) or self.detail

    @property
    def title(self) -> str:
        return HTTPStatus(self.status).phrase


class BadRequest(Problem):
    status = 400


class Unauthorized(Problem):
    status = 401

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers={"WWW-Authenticate": "Bearer"})


class Forbidden(Problem):
    status = 403


class NotFound(Problem):
    status = 404


class MethodNotAllowed(Problem):
    status = 405

    def __init__(self, detail: str, allowed: Sequence[str]) -> None:
        super().__init__(detail, headers={"Allow": ", ".join(allowed)})


class Duplicate(Problem):
    status = 409


class TooLarge(Problem):
    status = 413


class BadMediaType(Problem):
    status = 415


class Invalid(Problem):
    status = 422


class NotSaved(Problem):
    status = 503

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers={"Retry-After": "5"})


class Unavailable(Problem):
    status = 503

    def __init__(self, detail: str) -> None:
        super().__init__(detail, headers={"Retry-After": "1"})
