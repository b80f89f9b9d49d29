"""A small portal with a login that has the callosum at /memory: readers search, editors also add and remove stores.

    PORTAL_READER=... PORTAL_EDITOR=... python examples/portal.py seren-corpus-callosum.yaml

The two variables hold the passwords. It listens on http://127.0.0.1:8000.
"""

import hmac
import os
import secrets
import sys
from pathlib import Path

import waitress
from flask import Flask, redirect, render_template_string, request, session, url_for
from werkzeug.wrappers import Response

from seren_corpus_callosum import Callosum, create_blueprint

PAGE = """<!doctype html><title>Portal</title>
{% if role %}
<p>Signed in as {{ role }}. <a href="{{ url_for('memory.viewer') }}">Memory</a></p>
<form method="post" action="{{ url_for('sign_out') }}"><button>Sign out</button></form>
{% else %}
<form method="post" action="{{ url_for('sign_in') }}">
<label>Password <input name="password" type="password" autofocus></label> <button>Sign in</button></form>
{% endif %}"""


def create_portal(callosum: Callosum, passwords: dict[str, str]) -> Flask:
    """The portal: `passwords` of the roles `reader` and `editor`."""
    app = Flask(__name__)
    app.secret_key = secrets.token_bytes(32)
    app.config.update(SESSION_COOKIE_SAMESITE="Lax", SESSION_COOKIE_NAME="portal")

    def authorize(action: str) -> bool | Response:
        """What the portal says to every request for the callosum: `action` is "read" or "change"."""
        role = session.get("role")
        if role is None:
            wants_page = request.accept_mimetypes.accept_html and request.method == "GET"
            return redirect(url_for("home")) if wants_page else False
        return action == "read" or role == "editor"

    app.register_blueprint(create_blueprint(callosum, name="memory", authorize=authorize), url_prefix="/memory")

    @app.get("/")
    def home() -> str:
        return render_template_string(PAGE, role=session.get("role"))

    @app.post("/sign-in")
    def sign_in() -> Response:
        given = request.form.get("password", "").encode()
        for role, password in passwords.items():
            if password and hmac.compare_digest(given, password.encode()):
                session["role"] = role
        return redirect(url_for("home"))

    @app.post("/sign-out")
    def sign_out() -> Response:
        session.clear()
        return redirect(url_for("home"))

    @app.errorhandler(404)
    def not_found(error: Exception) -> tuple[str, int]:
        return "<h1>The portal has no such page</h1>", 404

    return app


def main() -> None:
    config = Path(sys.argv[1]) if len(sys.argv) > 1 else None
    passwords = {role: os.environ.get(f"PORTAL_{role.upper()}", "") for role in ("reader", "editor")}
    port = int(os.environ.get("PORTAL_PORT", "8000"))
    portal = create_portal(Callosum.from_config(config), passwords)
    waitress.serve(portal, host="127.0.0.1", port=port, threads=16)


if __name__ == "__main__":
    main()
