"""Who may talk to the studio: this machine's browser, from the studio's own page, with the token that was printed."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import Scope

from simile._common.web import FORBIDDEN, MISDIRECTED, Guard, GuardedApp, answer_refusal

PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
# Pages that hold a user's data, such as a report: their scripts run, but as nobody, and reach nothing.
SANDBOX_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
)

NO_TOKEN = "this studio needs the token of the address that `simile studio` printed: open that address"


def build_guard(token: str, hosts: frozenset[str], cookie: str) -> Guard:
    """Return the rules of a studio that goes by these hosts, and whose cookie has this name."""
    return Guard(
        token=token,
        knows_host=hosts.__contains__,
        origins=frozenset(f"http://{host}" for host in hosts),
        wrong_host=(MISDIRECTED, f"this studio answers to {', '.join(sorted(hosts))} only: open it there"),
        wrong_origin=(FORBIDDEN, "this studio answers to its own page only: open it there"),
        wrong_token=(FORBIDDEN, NO_TOKEN),
        cookie=cookie,
    )


@dataclass(frozen=True)
class GuardedStudio(GuardedApp):
    """The outermost layer of the studio; a browser that comes with the token in the address is given a cookie."""

    def answer(self, scope: Scope, query: str) -> Response | None:
        """Return the answer to who may not ask, and to who just came with the token; None for everybody else."""
        if scope["type"] != "http" or scope["path"] != "/":
            return super().answer(scope, query)
        refusal = self.check(scope, query)
        if refusal is None:
            return self._welcome() if scope["method"] == "GET" and self.guard.knows_token(query) else None
        if refusal is self.guard.wrong_token:
            return HTMLResponse(f"<!doctype html><title>simile studio</title><p>Sorry: {NO_TOKEN}.</p>", FORBIDDEN)
        return answer_refusal(*refusal)

    def _welcome(self) -> Response:
        """Hand out the cookie and take the token out of the address bar, and so out of the history."""
        answer = RedirectResponse("/", 303)
        answer.set_cookie(self.guard.cookie or "", self.guard.token or "", httponly=True, samesite="strict", path="/")
        return answer
