"""Machinery: what all trials of one place share, opened once: sandboxes, images, the way to a model, agents."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from seatrial.agents.api import Agent, make_agent
from seatrial.images.resolver import HOST_ONLY, ImageResolver
from seatrial.model.job import AgentOptions
from seatrial.sandbox.api import SandboxBackend
from seatrial.trial.agent_version import KnownVersions

if TYPE_CHECKING:  # an HTTP server and client, which most trials do without
    from seatrial.gateway.access import ModelAccess
    from seatrial.trial.verifier_files import OwnStaging


@dataclass(eq=False, slots=True)
class Machinery:
    """The live half of a trial, as its spec is the written one. `agents` that are given are not made, by their titles.

    Without a `model`, agents have no gateway. With a `staging`, somebody else lays out what verifiers find.
    """

    backend: SandboxBackend
    images: ImageResolver = HOST_ONLY
    model: "ModelAccess | None" = None
    agents: Mapping[str, Agent] = field(default_factory=dict)
    versions: KnownVersions = field(default_factory=KnownVersions)
    staging: "OwnStaging | None" = None
    _made: dict[str, Agent] = field(default_factory=dict)

    def with_agent(self, title: str, agent: Agent | None) -> "Machinery":
        """The same machinery with an agent that is given, without a model."""
        given = {title: agent} if agent else {}
        return Machinery(self.backend, self.images, agents={**self.agents, **given}, versions=self.versions)

    def agent(self, options: AgentOptions) -> Agent:
        """The agent that options describe, made once. Raises UsageError for options that no agent can use."""
        given = self.agents.get(options.title) or self._made.get(options.title)
        if given is None:
            given = self._made[options.title] = make_agent(options)
        return given
