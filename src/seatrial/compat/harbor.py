"""HarborEnv as modules that were written for verifiers expect it."""

from typing import ClassVar

from seatrial.env import harbor
from seatrial.model.job import Layout


class HarborEnv(harbor.HarborEnv):
    """Runs test.sh in `/tests`, with the solution in `/oracle`, unless `layout` says otherwise."""

    usual_layout: ClassVar[Layout] = "verifiers"
