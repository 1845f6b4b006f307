"""CallTally: how an agent fared with its requests, for those who want to know whether it ever reached its model."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallTally:
    """What came of the requests of one trial.

    `requests` are calls, and whatever was refused before it could be one; lists of models and the like are not counted.
    `answered` are calls that a model has answered. `refused_by_us` never reached it and no limit of the run was
    spoken of: a wrong key, an unknown path, a field that cannot be translated. `last_refusal` is what the agent was
    told.
    """

    requests: int = 0
    answered: int = 0
    refused_by_us: int = 0
    last_refusal: str | None = None
