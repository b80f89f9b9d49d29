"""SerenCorpusCallosum: one query to many memory stores at once, one rank-fused list back."""

from .errors import CallosumError, ConfigError, Problem, StoreError
from .hits import Hit, Packet
from .service import Callosum
from .stores import Adapter, Option, register_adapter
from .web import create_app, create_blueprint

__all__ = [
    "Adapter",
    "Callosum",
    "CallosumError",
    "ConfigError",
    "Hit",
    "Option",
    "Packet",
    "Problem",
    "StoreError",
    "create_app",
    "create_blueprint",
    "register_adapter",
]
