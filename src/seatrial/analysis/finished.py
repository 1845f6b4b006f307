"""What reports need to know of a finished trial, whether it is from the index of a job or from a test."""

from typing import Protocol

from seatrial.model.record import Outcome


class Finished(Protocol):
    """What a summary needs to know of a finished trial."""

    @property
    def agent(self) -> str:
        """How the job calls the agent."""
        ...

    @property
    def outcome(self) -> Outcome:
        """What the trial amounts to."""
        ...

    @property
    def reward(self) -> float | None:
        """What its verifier gave, None when there is no evaluation."""
        ...

    @property
    def model_calls(self) -> int | None:
        """How often it called its model, None without one."""
        ...

    @property
    def input_tokens(self) -> int | None:
        """What its model was told."""
        ...

    @property
    def output_tokens(self) -> int | None:
        """What its model said."""
        ...

    @property
    def cost_usd(self) -> float | None:
        """What that cost, None when it is not known."""
        ...

    @property
    def prices(self) -> str | None:
        """By which tables of prices that was computed, None when nobody said."""
        ...

    @property
    def disputed_reward(self) -> float | None:
        """What its verifier gave on the system as the agent left it, where that is higher; None where it is not."""
        ...

    @property
    def trial_id(self) -> str:
        """Which trial it was."""
        ...

    @property
    def failure(self) -> str | None:
        """Why it could not be run, None when it was."""
        ...

    @property
    def task_id(self) -> str:
        """Which task it was."""
        ...

    @property
    def broken(self) -> bool:
        """Whether its verifier has no verdict even on what nobody has touched."""
        ...

    @property
    def put_back(self) -> int:
        """How many files its verifier did not meet as the agent left them."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """The codes of what makes its verdict doubtful, such as an agent that never started."""
        ...

    @property
    def revision(self) -> int:
        """How often it was judged again; all of the above is about the last time."""
        ...

    @property
    def first_outcome(self) -> Outcome | None:
        """What it amounted to when it ran, None where it was not judged again."""
        ...

    @property
    def first_reward(self) -> float | None:
        """What its verifier gave then."""
        ...

    @property
    def first_broken(self) -> bool:
        """Whether that verifier had no verdict even on what nobody had touched."""
        ...
