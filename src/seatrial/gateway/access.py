"""An agent's access to its model: a session at a listener inside its sandbox, and the variables that lead there."""

import os
import re
import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path

from seatrial.gateway.api import Keyed, Upstream, for_trial
from seatrial.gateway.base import Limits
from seatrial.gateway.calls import CallLog
from seatrial.gateway.dialects import PROVIDERS
from seatrial.gateway.prices import PriceTable
from seatrial.gateway.server import serve
from seatrial.gateway.session import Keys, Session, SessionOptions
from seatrial.model.base import name_at

_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ModelAccess:
    """What all trials of a job share: where their calls go, how far, and what calls cost."""

    upstream: Upstream
    options: SessionOptions
    prices: PriceTable
    named: str | None = None
    """The upstream as the job names it."""

    @asynccontextmanager
    async def open(
        self,
        listener: socket.socket,
        folder: Path,
        model: str | None,
        secrets: Sequence[str] = (),
        keys: Keys = "own",
    ) -> AsyncIterator["OpenAccess"]:
        """A session for one agent, served at a listener until the block is left; its calls go to a file in `folder`.

        Nothing that looks like a secret of this machine gets there, nor do `secrets`. Where `any` key opens it, the
        listener must be out of everybody else's reach.
        """
        with self.session(folder, model, secrets, keys) as session:
            async with serve(session, listener) as port:
                yield OpenAccess(session, agent_variables(f"http://127.0.0.1:{port}", session.key))

    @contextmanager
    def session(
        self, folder: Path, model: str | None, secrets: Sequence[str] = (), keys: Keys = "own"
    ) -> Iterator[Session]:
        """A session that nobody is served by yet."""
        options = self.options.with_model(name_at(model, self.named))
        with CallLog(folder, [*known_secrets(os.environ), *secrets, *secrets_for(self.upstream)]) as log:
            yield Session(for_trial(self.upstream), log, options, self.prices, Limits(spool=folder), keys)


@dataclass(frozen=True, slots=True)
class OpenAccess:
    """A session that is being served, and the variables by which an agent finds it."""

    session: Session
    variables: Mapping[str, str]


def agent_variables(root: str, key: str) -> dict[str, str]:
    """The variables by which SDKs and agents find a gateway at an address.

    No ANTHROPIC_AUTH_TOKEN: Claude Code warns of two ways to log in. No variable of a provider that agents would reach
    elsewhere once they see its key, such as OpenRouter's.
    """
    found = {}
    for provider in PROVIDERS.values():
        found.update(dict.fromkeys(provider.url_variables, root + provider.url_end))
        found.update(dict.fromkeys(provider.key_variables, key))
    return {
        **found,
        "LLM_BASE_URL": f"{root}/v1",
        "LLM_API_KEY": key,
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # or it waits for a price list from the web
    }


def secrets_for(upstream: Upstream) -> Sequence[str]:
    """What an upstream sends along that has no business in a record either, whatever its variable is called."""
    return upstream.secrets if isinstance(upstream, Keyed) else ()


def known_secrets(environ: Mapping[str, str]) -> list[str]:
    """What on this machine looks like a secret and has no business in a record."""
    return [value for name, value in environ.items() if _SECRET.search(name)]
