"""The Bridge: renders the one page, and says what the browser may do with it. Knows nothing of any web framework."""

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import jinja2


class Page(NamedTuple):
    """One rendering: the nonce in its text is the one in its headers."""

    html: str
    headers: Mapping[str, str]


class Bridge:
    """The page of one callosum; `frame_ancestors` are the origins that may frame it beside its own."""

    def __init__(self, frame_ancestors: Sequence[str] = ()) -> None:
        self._template = environment().get_template("viewer.html")
        self._frame_ancestors = " ".join(["'self'", *frame_ancestors])

    def render(self, api: str, *, hosted: bool = False) -> Page:
        """The page with a nonce of its own; `api` is the address of the search, for readers without JavaScript.

        `hosted`: the portal around it decides who may use it.
        """
        nonce = secrets.token_urlsafe(16)
        rules = (
            "default-src 'none'",
            f"style-src 'nonce-{nonce}'",
            f"script-src 'nonce-{nonce}'",
            "connect-src 'self'",
            "img-src data:",
            "form-action 'none'",
            "base-uri 'none'",
            f"frame-ancestors {self._frame_ancestors}",
        )
        headers = {
            "Content-Security-Policy": "; ".join(rules),
            "X-Content-Type-Options": "nosniff",
            "Referrer-Policy": "no-referrer",
            "Cache-Control": "no-store",
        }
        return Page(self._template.render(nonce=nonce, api=api, hosted=hosted), headers)


def environment() -> jinja2.Environment:
    """Our own templates and nothing else: a host's of the same names and its context processors stay out."""
    here = Path(__file__).parent
    folders = [here / "templates", here.parent / "templates"]
    return jinja2.Environment(loader=jinja2.FileSystemLoader(folders), autoescape=True, trim_blocks=True)
