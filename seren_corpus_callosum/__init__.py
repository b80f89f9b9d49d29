"""SerenCorpusCallosum: one query to many memory stores at once, one rank-fused list back."""

from .config import Config
from .errors import (
    BadRequest,
    CallosumError,
    ConfigError,
    Duplicate,
    Invalid,
    NotFound,
    NotSaved,
    Problem,
    StoreError,
    Unavailable,
)
from .hits import Asked, Failure, Hit, Packet, RankedHit, Skipped, Warned
from .service import Callosum, Check
from .snapshot import Row
from .stores import Adapter, Mapped, Option, register_adapter
from .web import create_app, create_blueprint

__all__ = [
    "Adapter",
    "Asked",
    "BadRequest",
    "Callosum",
    "CallosumError",
    "Check",
    "Config",
    "ConfigError",
    "Duplicate",
    "Failure",
    "Hit",
    "Invalid",
    "Mapped",
    "NotFound",
    "NotSaved",
    "Option",
    "Packet",
    "Problem",
    "RankedHit",
    "Row",
    "Skipped",
    "StoreError",
    "Unavailable",
    "Warned",
    "create_app",
    "create_blueprint",
    "register_adapter",
]
