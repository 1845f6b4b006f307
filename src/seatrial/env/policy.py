"""Policy: a model that is exchanged between rollouts, while they go on."""


class Policy:
    """Who answers for the model; `swap` puts another one in its place.

    It goes wherever a client goes. A rollout keeps the client that it began with, and its output says as
    `policy_version` which one that was. Without a `model` of its own, rollouts ask for the one that they were given.
    """

    def __init__(self, client: object, model: str | None = None, version: int = 0) -> None:
        self.client = client
        self.model = model
        self.version = version

    def swap(self, client: object | None = None, model: str | None = None, version: int | None = None) -> int:
        """Have rollouts that begin from now on answered by another client, and return the version that they have.

        Without a client it stays the same one: its weights were changed where they are.
        """
        self.client = self.client if client is None else client
        self.model = self.model if model is None else model
        self.version = self.version + 1 if version is None else version
        return self.version

    def __repr__(self) -> str:
        return f"Policy({self.client!r}, model={self.model!r}, version={self.version})"
