"""The command line. Each command is a few lines over the modules that do the work."""

import json
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from . import console, init, logs, remote, service_command, wire
from .binding import STORE_ROWS, bind_all
from .config import OVERLAY_FILE, Config, file_path, load
from .demo import SAMPLE_QUERY, SampleStores
from .errors import CallosumError, ConfigError, Invalid
from .guard import is_loopback
from .server import Server, serve_until_signalled
from .service import CHECK_QUERY, Callosum
from .settings import Server as ServerSettings
from .tool import NO_MCP, has_mcp

log = logging.getLogger(__name__)

F = TypeVar("F", bound=Callable[..., Any])


def main() -> None:
    """The console script."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        cli(standalone_mode=True)
    except ConfigError as exc:
        for fault in exc.faults:
            logs.last_words(fault)
        sys.exit(exc.exit_status)
    except CallosumError as exc:
        _fail(str(exc))


def _fail(message: str, status: int = 1) -> NoReturn:
    logs.last_words(f"seren-corpus-callosum: {console.plain(message)}")
    sys.exit(status)


def config_option(command: F) -> F:
    """-c works before and after the name of a command."""
    return click.option("--config", "-c", "config_path", metavar="PATH", help="The YAML file.")(command)


@click.group(invoke_without_command=True)
@config_option
@click.option("--log-file", metavar="PATH", help="Log to this file, rotated at 10 MiB, not to standard error.")
@click.version_option(package_name="seren-corpus-callosum", message="%(version)s")
@click.pass_context
def cli(context: click.Context, config_path: str | None, log_file: str | None) -> None:
    """One query to many memory stores at once, one rank-fused list back. Without a command: serve."""
    context.obj = config_path
    if log_file:
        logs.to_file(log_file)
    if context.invoked_subcommand is None:
        context.invoke(serve)
    logs.be_quiet()


def _config(context: click.Context, config_path: str | None) -> Config:
    return load(config_path or context.obj)


def _aloud(config: Config) -> Config:
    """The configuration, its warnings said on standard error."""
    for warning in config.warnings:
        click.echo(f"warning: {console.plain(warning)}", err=True)
    return config


@cli.command()
@config_option
@click.pass_context
def serve(context: click.Context, config_path: str | None) -> NoReturn:
    """Serve until signalled, as without a command."""
    config = _config(context, config_path)
    logs.set_up(config.log_level)
    for warning in config.warnings:
        log.warning("%s", console.plain(warning))
    host, port = config.server.host, config.server.port
    if config.token is None and not is_loopback(host):
        log.warning(
            "OPEN SERVICE: no token is set and %s is not loopback: whoever reaches port %d can search every store; "
            "set server.bearer_token, or server.host to 127.0.0.1",
            host,
            port,
        )
    if not os.path.isdir(config.overlay.parent):  # noqa: PTH112  pathlib raises where it may not look
        log.warning("%s does not exist: no store can be added until it does", config.overlay.parent)
    callosum = Callosum(config)
    for row in callosum.roster():
        log.info("store %s (%s): %s", *map(console.plain, (row.entry.name, row.entry.type, row.status)))
    server = listening(callosum)
    log.info("listening on %s port %d, the page is at /viewer", host, port)
    serve_until_signalled(server)


def listening(callosum: Callosum) -> Server:
    """A server on the configured port, or the end of the process with a line that names the port."""
    host, port = callosum.config.server.host, callosum.config.server.port
    try:
        return Server(callosum)
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) and exc.strerror else "not an address of this machine"
        _fail(f"cannot listen on {host} port {port}: {reason.lower()}; set server.host or server.port")


@cli.command()
@config_option
@click.argument("words", metavar="QUERY", nargs=-1, required=True)
@click.option("-n", "n_results", type=int, help="How many hits.")
@click.option("--json", "as_json", is_flag=True, help="Print the body of POST /search.")
@click.option("--url", help="Ask a running service, with the token of this configuration.")
@click.pass_context
def search(
    context: click.Context,
    config_path: str | None,
    words: tuple[str, ...],
    n_results: int | None,
    as_json: bool,
    url: str | None,
) -> None:
    """Search every store and print the merged list."""
    config, query = _config(context, config_path), " ".join(words)
    if url is None:
        with Callosum(_aloud(config)) as callosum:
            body = wire.packet_body(callosum.search(query, n_results))
    else:
        body = remote.search(config, url, query, n_results)
    if as_json:
        click.echo(json.dumps(body, indent=2))  # in ASCII: any console can show it, none is steered by it
    else:
        click.echo("\n".join(console.search_lines(body)))


@cli.command()
@config_option
@click.pass_context
def check(context: click.Context, config_path: str | None) -> None:
    """Print the resolved configuration, then ask every store a live query. Status 0 only if all answered."""
    config = _config(context, config_path)
    click.echo("\n".join(console.config_lines(config)))
    for warning in config.warnings:
        click.echo(f"warning: {console.plain(warning)}")
    with Callosum(config) as callosum:
        click.echo("\n".join(console.roster_lines(callosum.roster(), callosum.damage)))
        click.echo(f'asking each store "{CHECK_QUERY}":')
        checks = callosum.check_all()
    click.echo("\n".join(console.check_lines(checks)))
    if not all(one.ok for one in checks):
        sys.exit(1)


@cli.command()
@click.option("--once", is_flag=True, help="End after the sample search.")
def demo(once: bool) -> None:
    """Serve two sample stores and the callosum over them, on loopback, without any configuration."""
    temporary = tempfile.TemporaryDirectory()
    with SampleStores() as samples, temporary as folder:
        stores = tuple(bind_all(samples.store_entries(), {}, managed=False))
        settings_ = ServerSettings(host="127.0.0.1")
        config = Config(server=settings_, stores=stores, overlay=Path(folder) / OVERLAY_FILE)
        logs.set_up("warning")
        with Callosum(config) as callosum:
            body = wire.packet_body(callosum.search(SAMPLE_QUERY, 6))
        click.echo(f"two sample stores: {samples.loci_url} (facts), {samples.memory_url} (episodes)")
        click.echo(f'search "{SAMPLE_QUERY}":\n')
        click.echo("\n".join(console.search_lines(body)))
        if once:
            return
        server = _free_server(config)
        click.echo(f"\nthe page: http://127.0.0.1:{server.port}/viewer   (Ctrl+C ends it)")
        serve_until_signalled(server, last=temporary.cleanup)


def _free_server(config: Config) -> Server:
    try:
        return Server(Callosum(config))
    except OSError:
        return Server(Callosum(replace(config, server=replace(config.server, port=0))))


@cli.command("init")
@config_option
@click.option("--token", "with_token", is_flag=True, help="Generate a token that callers must send.")
@click.option("--force", is_flag=True, help="Replace an existing file, which is kept as .bak-<time>.")
@click.pass_context
def init_config(context: click.Context, config_path: str | None, with_token: bool, force: bool) -> None:
    """Write a starter configuration that fans the SerenLoci and SerenMemory of this machine."""
    logs.set_up("error")  # a store that does not answer yet is reported, not logged
    path = file_path(config_path or context.obj, os.environ)
    token = init.new_token() if with_token else ""
    aside = init.write_starter(path, token=token, force=force)
    click.echo("\n".join(map(console.plain, init.report(path, aside, token, init.probe()))))


@cli.command()
@config_option
@click.argument("action", type=click.Choice(service_command.ACTIONS))
@click.option("--system", is_flag=True, help="A service of the machine, not of this account.")
@click.pass_context
def service(context: click.Context, config_path: str | None, action: str, system: bool) -> None:
    """Install, remove, look at or print the service that starts this program at boot."""
    status, told = service_command.carry_out(action, config_path or context.obj, system=system)
    click.echo(told)
    sys.exit(status)


@cli.command("mcp")
@config_option
@click.pass_context
def serve_mcp(context: click.Context, config_path: str | None) -> None:
    """Serve the search tool over standard input and output, for clients that start a command."""
    if not has_mcp():
        _fail(NO_MCP)
    if sys.stdin is None or sys.stdout is None:
        _fail("mcp speaks over standard input and output, and one of them is closed")
    from . import mcp  # loads the SDK, which need not be there

    config = _config(context, config_path)
    logs.set_up(config.log_level)
    for warning in config.warnings:
        log.warning("%s", console.plain(warning))
    # A thread that waits for standard input cannot be joined: Ctrl+C would hang until the next line.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with Callosum(config) as callosum:
        mcp.serve_stdio(callosum)


@cli.group()
@config_option
@click.pass_context
def stores(context: click.Context, config_path: str | None) -> None:
    """List, add and remove the stores of the overlay, with or without a running service."""
    context.obj = config_path or context.obj


@stores.command("list")
@config_option
@click.pass_context
def list_stores(context: click.Context, config_path: str | None) -> None:
    """Print every store, usable or not."""
    with Callosum(_aloud(_config(context, config_path))) as callosum:
        click.echo("\n".join(console.roster_lines(callosum.roster(), callosum.damage)))


def _option_value(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


@stores.command("add")
@config_option
@click.argument("name")
@click.argument("type_name", metavar="TYPE")
@click.argument("url")
@click.option("--weight", type=float, help=f"{STORE_ROWS['weight'].help} (0..1000).")
@click.option("--floor", type=float, help=f"{STORE_ROWS['floor'].help} (0..1).")
@click.option("--timeout-s", type=float, help=f"{STORE_ROWS['timeout_s'].help} (0.05..120).")
@click.option("--disabled", is_flag=True, help="Add it without asking it.")
@click.option("--token-stdin", is_flag=True, help="Read the store's token from standard input.")
@click.option("--token-env", help="Name of an environment variable that holds the store's token.")
@click.option("--token-keyring", help="Place of the store's token in the OS keychain, service/username.")
@click.option("--option", "options", multiple=True, metavar="KEY=VALUE", help="An adapter option; VALUE may be JSON.")
@click.option("--check", "check_first", is_flag=True, help="Ask it a live query first.")
@click.pass_context
def add_store(
    context: click.Context,
    /,
    config_path: str | None,
    name: str,
    type_name: str,
    url: str,
    disabled: bool,
    token_stdin: bool,
    options: tuple[str, ...],
    check_first: bool,
    **given: Any,
) -> None:
    """Add a store to the overlay; a running service has it in its next search.

    TYPE is seren_loci, seren_memory, callosum, or one that an installed adapter brings.
    """
    entry: dict[str, Any] = {"name": name, "type": type_name, "url": url}
    entry |= {key: value for key, value in given.items() if value is not None}
    if disabled:
        entry["enabled"] = False
    if token_stdin:
        entry["token"] = sys.stdin.readline().strip() if sys.stdin else ""
        if not entry["token"]:
            raise Invalid("not added: standard input held no token")
    if options:
        pairs = [option.partition("=") for option in options]
        entry["options"] = {key: _option_value(value) for key, _, value in pairs}
    with Callosum(_aloud(_config(context, config_path))) as callosum:
        if check_first:
            result = callosum.check(entry, pointers=True)
            if not result.ok:
                raise Invalid(f"not added: {result.reason}")
        row = callosum.add_store(entry, pointers=True)
    click.echo("\n".join(console.roster_lines([row], None)))


@stores.command("remove")
@config_option
@click.argument("name")
@click.pass_context
def remove_store(context: click.Context, config_path: str | None, name: str) -> None:
    """Remove a store of the overlay, its keychain entry with it."""
    with Callosum(_aloud(_config(context, config_path))) as callosum:
        click.echo(f"removed {console.plain(callosum.remove_store(name))}")
