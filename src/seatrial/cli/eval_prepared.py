"""An evaluation that is ready to run: what the options of `seatrial eval` mean, once the environment is loaded."""

import importlib
import importlib.util
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seatrial.cli.eval_client import PROVIDERS, ModelAsked, model_asked, sampling_asked
from seatrial.cli.eval_folder import evaluation_folder, refuse_other_settings, settings_of
from seatrial.env.environment import Environment
from seatrial.env.eval_figures import PASS_THRESHOLD
from seatrial.env.loading import Loader, find_environment
from seatrial.env.module_errors import blaming_module
from seatrial.env.module_files import read_project
from seatrial.errors import UsageError

Options = Mapping[str, Any]

USUAL_EXAMPLES, USUAL_ROLLOUTS = 5, 3

_USUAL_FOLDER = Path("environments")


@dataclass(frozen=True, slots=True)
class PreparedEval:
    """An environment with all that `evaluate` is to be told. `home` is the folder of its module, if it has one."""

    environment: Environment
    model: ModelAsked
    sampling_args: Mapping[str, Any]
    num_examples: int
    rollouts: int
    planned: int
    seed: int | None
    folder: Path | None
    resume: bool
    settings: Mapping[str, Any]
    options: Options
    home: Path | None = None

    @property
    def pass_threshold(self) -> float:
        """The reward from which on a rollout has passed."""
        of_trials = getattr(self.environment, "trial_options", None)  # the record of a trial says it already
        of_environment = getattr(self.environment, "pass_threshold", PASS_THRESHOLD)
        return float(of_trials.pass_threshold if of_trials is not None else of_environment)


def prepare_eval(options: Options) -> PreparedEval:
    """Load the environment and find out what is to be done. Raises UsageError or JobError."""
    options = _with_place(options)
    if options["resume"] is not None and not options["save"]:
        raise UsageError("--resume goes on with results that are kept: leave out --no-save-results")
    model, sampling = model_asked(options, os.environ), sampling_asked(options)
    stand_in_for_verifiers(options["compat"])
    loader = find_environment(options["env"], [options["env_dir_path"] or _USUAL_FOLDER])
    environment = loader.load(options["env_args"])
    _set_attributes(environment, options)
    usual = _usual_numbers(loader)
    num_examples = usual[0] if options["num_examples"] is None else options["num_examples"]
    rollouts = usual[1] if options["rollouts"] is None else options["rollouts"]
    with blaming_module(loader.env_id, "its dataset cannot be loaded", loader.home):
        examples = len(environment.get_eval_dataset(num_examples))
    seed = (options["seed"] or 0) if options["shuffle"] else None
    settings = settings_of(environment.env_id, options["env_args"], model.name, sampling, seed)
    folder, resume = _place(environment, model, settings, options)
    return PreparedEval(
        environment=environment,
        model=model,
        sampling_args=sampling,
        num_examples=num_examples,
        rollouts=rollouts,
        planned=examples * rollouts,
        seed=seed,
        folder=folder,
        resume=resume,
        settings=settings,
        options=options,
        home=loader.home,
    )


def stand_in_for_verifiers(asked: bool | None) -> None:
    """Let `import verifiers` find our names, if that was asked for or nothing else would answer to it."""
    if asked is None:
        asked = importlib.util.find_spec("verifiers") is None
    if asked:
        importlib.import_module("seatrial.compat.verifiers").install()


def _with_place(options: Options) -> Options:
    """`-p` was the folder of environments in one release of verifiers and a provider in the next."""
    given = options["place_or_provider"]
    if given is None:
        return options
    return {**options, **({"provider": given} if given in PROVIDERS else {"env_dir_path": Path(given)})}


def _set_attributes(environment: Environment, options: Options) -> None:
    values = dict(options["extra_env_kwargs"])
    if options["timeout_sec"] is not None:
        values["timeout_seconds"] = options["timeout_sec"]
    for name, value in values.items():
        if not hasattr(environment, name):
            kind = type(environment).__name__
            raise UsageError(f"-x: {kind} has no attribute {name!r}; arguments of load_environment go to -a")
        set_own = getattr(environment, f"set_{name}", None)
        if callable(set_own):
            set_own(value)
        else:
            setattr(environment, name, value)


def _usual_numbers(loader: Loader) -> tuple[int, int]:
    """How many examples and rollouts the environment's own pyproject.toml asks for."""
    tools = read_project(loader.home).get("tool", {}) if loader.home else {}
    found: dict[str, Any] = {}
    for name in ("verifiers", "seatrial"):
        table = tools.get(name, {}) if isinstance(tools, dict) else {}
        said = table.get("eval", {}) if isinstance(table, dict) else {}
        found |= said if isinstance(said, dict) else {}
    numbers = (found.get("num_examples", USUAL_EXAMPLES), found.get("rollouts_per_example", USUAL_ROLLOUTS))
    if not all(isinstance(number, int) for number in numbers):
        named = f"num_examples and rollouts_per_example are {numbers}, expected whole numbers"
        raise UsageError(f"{loader.home}/pyproject.toml: {named}")
    return numbers


def _place(
    environment: Environment, model: ModelAsked, settings: Mapping[str, Any], options: Options
) -> tuple[Path | None, bool]:
    if not options["save"]:
        return None, False
    folder, resume = evaluation_folder(environment.env_id, model.name, options["output"], options["resume"])
    if resume:
        refuse_other_settings(folder, settings)
    return folder, resume
