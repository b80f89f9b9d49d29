"""axe-core, injected into a page: what is wrong with it for people who cannot see or point."""

from typing import Any

from .checks import REPO, require

AXE = REPO / ".real" / "node_modules" / "axe-core" / "axe.min.js"
GRAVE = ("serious", "critical")


def violations(page: Any) -> list[str]:
    """The serious and critical violations of a Playwright page as it is now, one line each."""
    require(AXE.exists(), "axe-core (npm install --prefix .real axe-core)")
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    return [
        f"{one['id']}: {node['html'][:160]} ({'; '.join(check['message'] for check in node['any'])})"
        for one in found
        if one["impact"] in GRAVE
        for node in one["nodes"]
    ]
