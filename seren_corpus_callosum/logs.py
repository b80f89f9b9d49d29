"""Where the log goes: standard error, or a file that is kept from growing. Nothing of it touches a host's logging."""

import logging
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

import click

from .errors import ConfigError

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
FILE_LIMIT_BYTES = 10 * 1024 * 1024
OLD_FILES = 3

log = logging.getLogger(__name__)


def to_file(path: str) -> None:
    """Send the log of this process to a file; ConfigError if it cannot be written."""
    try:
        file = Path(path).expanduser().absolute()
        handler = RotatingFileHandler(file, maxBytes=FILE_LIMIT_BYTES, backupCount=OLD_FILES, encoding="utf-8")
    except (OSError, RuntimeError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "there is no home folder to put for ~"
        raise ConfigError([f"--log-file {path}: cannot be written: {reason}"]) from None
    logging.basicConfig(level=logging.INFO, format=FORMAT, handlers=[handler])


def be_quiet() -> None:
    """Keep the package's warnings off standard error until set_up: a command prints them itself, in its own words."""
    logging.getLogger(__package__).addHandler(logging.NullHandler())


def set_up(level: str) -> None:
    """Log at `level`, to standard error unless a file was set."""
    logging.basicConfig(format=FORMAT, stream=sys.stderr)  # no effect where to_file was before
    logging.getLogger().setLevel(level.upper())
    # They write lines for each request or connection, some with addresses that hold credentials.
    for name in ("urllib3", "waitress", "mcp"):
        logging.getLogger(name).setLevel(logging.ERROR)


def last_words(message: str) -> None:
    """Say why the process ends, on standard error and in the log file: the Task Scheduler keeps no output."""
    click.echo(message, err=True)
    if any(isinstance(handler, RotatingFileHandler) for handler in logging.getLogger().handlers):
        log.critical("%s", message)
