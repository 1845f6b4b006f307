"""Trying each agent out before its first trial, so that what cannot work costs nothing.

One sandbox per agent, made as for its first trial, or a few where that one lacks something: the program that its
command names is there, the gateway answers from inside, the provider takes our key and knows the model. Only
what is certain stops a job; a machine, an image or a provider that has a bad moment is left to the trials, which try
again and never count it as a zero.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from seatrial.agents.api import AgentLaunch, is_reference, make_agents
from seatrial.agents.command_line import needed_by
from seatrial.agents.environ import agent_variables
from seatrial.errors import AgentUnfitError, BakeError, PreflightError, TrialError, UsageError
from seatrial.jobs.attempt import trial_spec
from seatrial.jobs.plan import TrialPlan
from seatrial.jobs.prepare import PreparedJob
from seatrial.model.base import name_at
from seatrial.model.events import Notice, unobserved
from seatrial.model.loaded_task import Task
from seatrial.sandbox.api import ExecSpec
from seatrial.sandbox.runs import Scratch
from seatrial.trial.events import Observer
from seatrial.trial.log import TrialLog
from seatrial.trial.place import agent_image
from seatrial.trial.rounds import rounds_of
from seatrial.trial.spec import Machinery, TrialSpec
from seatrial.trial.steps import Turn, open_trial

if TYPE_CHECKING:  # an HTTP server and client, which most jobs do without
    from seatrial.gateway.api import Upstream

_TIMEOUT_SEC = 60.0
_MOST_TRIED = 3
_MOST_LOOKED_AT = 50  # tasks, to find some that are not alike
_OFF = "--no-preflight starts without this check"
# Says what is missing, and nothing where that is not certain.
_LOOK = """
command -v "$1" >/dev/null 2>&1 || { echo program; exit; }
test -z "$2" || test -e "$2" || command -v "$2" >/dev/null 2>&1 || echo script
"""
# Any answer will do. Where there is nothing to ask with, nothing is said.
_ASK = r"""
if command -v python3 >/dev/null 2>&1; then exec python3 -I -c '
import socket, sys
try:
    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 20) as gateway:
        gateway.sendall(b"GET / HTTP/1.0\r\n\r\n")
        print("answered" if gateway.recv(64).startswith(b"HTTP/") else "no answer")
except OSError as error:
    print("no answer:", error)
' "$1"; fi
if command -v curl >/dev/null 2>&1; then
    curl -s -m 20 -o /dev/null --noproxy '*' "http://127.0.0.1:$1/" && echo answered || echo "no answer: curl: $?"
fi
"""


@dataclass(frozen=True, slots=True)
class PreflightPlan:
    """What is to be tried out: the upstream's models, and each agent at a few trials. Plain data, as specs are."""

    upstream: str | None
    models: tuple[str | None, ...]
    agents: Mapping[str, tuple[TrialSpec, ...]]


def plan_preflight(job: PreparedJob) -> PreflightPlan:
    """What to try out before the trials of a job."""
    file = job.store.file
    agents = make_agents(file.spec.agents)
    plans: dict[str, list[TrialPlan]] = defaultdict(list)
    for plan in job.trials:
        if not is_reference(agents[plan.agent.title]):
            plans[plan.agent.title].append(plan)
    digests = {task.id: task.digest for task in file.tasks}
    specs = {
        title: tuple(trial_spec(file, plan, task, digests[plan.task_id]) for plan, task in _different(job, its))
        for title, its in plans.items()
    }
    models = {name_at(its[0].agent.model, file.spec.model.upstream) for its in plans.values()}
    return PreflightPlan(file.spec.model.upstream, tuple(sorted(models, key=str)), specs)


def _different(job: PreparedJob, plans: Sequence[TrialPlan]) -> list[tuple[TrialPlan, Task]]:
    """The first trial, and a few at tasks where an agent may find other programs and files than there."""
    own_images = job.store.file.spec.trial.image == "auto"
    first = {plan.task_id: plan for plan in reversed(plans)}
    found: dict[object, tuple[TrialPlan, Task]] = {}
    for task_id in islice(dict.fromkeys(plan.task_id for plan in plans), _MOST_LOOKED_AT):
        task = job.tasks[task_id]
        files = task_id if task.layout.environment_files else None
        found.setdefault((agent_image(task) if own_images else None, files), (first[task_id], task))
    return list(found.values())[:_MOST_TRIED]


async def preflight(plan: PreflightPlan, machinery: Machinery, tell: Observer) -> None:
    """Try out every agent that has trials. Raises PreflightError that says what cannot work, and what to do."""
    if machinery.model is not None:
        for model in plan.models:
            await _try_model(machinery.model.upstream, plan.upstream, model, tell)
    for title, specs in plan.agents.items():
        await _try_agent(title, specs, machinery, tell)


async def _try_model(upstream: "Upstream", name: str | None, model: str | None, tell: Observer) -> None:
    from seatrial.gateway.upstreams.provider import try_upstream  # noqa: PLC0415 - an HTTP client

    tried = await try_upstream(upstream, model)
    asked = f"the model {model!r}" if model else "its list of models"
    if tried and tried.verdict == "refuses":
        raise PreflightError(
            f"the upstream {name!r} was asked for {asked}, and trials would get no further: {tried.said}; "
            f"correct the key, the address or the name of the model; {_OFF}"
        )
    if tried and tried.verdict == "unclear":
        tell(Notice(f"the upstream {name!r} was asked for {asked}: {tried.said}; the trials start anyway"))


async def _try_agent(title: str, specs: Sequence[TrialSpec], machinery: Machinery, tell: Observer) -> None:
    """Look into the sandbox of the first trial; what is missing there may be in others, and then stops nothing."""
    missing: list[PreflightError] = []
    for spec in specs:
        try:
            with Scratch() as folder:
                async with open_trial(spec, machinery, folder, TrialLog(spec, unobserved)) as trial:
                    await _look_around(trial.begin(rounds_of(spec.task)[0]), title)
        except PreflightError as error:
            missing.append(error)
            continue
        except BakeError as error:  # no other task has another
            raise PreflightError(f"the agent {title!r} cannot be brought into its sandbox: {error}; {_OFF}") from error
        except (TrialError, UsageError) as error:
            tell(Notice(f"the agent {title!r} could not be tried out: {error}; its trials start anyway"))
        except Exception as error:  # noqa: BLE001 - a stranger's plug-in may fail in any way; each trial records it
            said = f"{type(error).__name__}: {error}"
            tell(Notice(f"the agent {title!r} could not be tried out: {said}; its trials start anyway", urgent=True))
        break
    else:
        raise missing[0]
    for lacking in missing:
        tell(Notice(f"{lacking} (but not in every task, so the trials start)", urgent=True))


async def _look_around(turn: Turn, title: str) -> None:
    try:
        launch = await turn.set_up()
    except AgentUnfitError as error:
        raise PreflightError(f"{error}; {_OFF}") from error
    if launch is None:
        return
    async with turn.open_model() as access:
        variables = {**access.variables, **launch.env} if access else launch.env
        if not launch.version:  # one that told its version has started
            await _look_for_program(turn, launch, variables, title)
        if access:
            await _ask_gateway(turn, access.variables["ANTHROPIC_BASE_URL"], title)


async def _look_for_program(turn: Turn, launch: AgentLaunch, variables: Mapping[str, str], title: str) -> None:
    needed = needed_by(launch.argv)
    if needed is None:
        return
    spec = turn.trial.spec
    missing = await _said(
        turn,
        ExecSpec(
            ("/bin/sh", "-c", _LOOK, "sh", needed.program, needed.script or ""),
            env={**agent_variables(spec.task, spec.task.workdir, turn.trial.agent.ref.model), **variables},
            cwd=launch.cwd,
            user=turn.round.agent.user,
            timeout_sec=_TIMEOUT_SEC,
        ),
    )
    place = f"the sandbox of task {spec.task.id!r} (image {turn.trial.place.sandbox.image.reference!r})"
    if missing == "program":
        raise PreflightError(
            f"the agent {title!r} cannot start: there is no program {needed.program!r} in {place}; install it with "
            f"--agent-setup, use an image that has it, or correct the command; {_OFF}"
        )
    if missing == "script":
        directory = launch.cwd or turn.trial.place.workdir
        raise PreflightError(
            f"the agent {title!r} cannot start: there is no file {needed.script!r} in {place}, seen from {directory}; "
            f"bring it there with --agent-files, --agent-setup or an image that has it; {_OFF}"
        )


async def _ask_gateway(turn: Turn, address: str, title: str) -> None:
    port = address.rpartition(":")[2]
    answer = await _said(turn, ExecSpec(("/bin/sh", "-c", _ASK, "sh", port), timeout_sec=_TIMEOUT_SEC))
    if answer.startswith("no answer"):
        raise PreflightError(
            f"the agent {title!r} would not reach its model: from inside its sandbox the gateway at {address} gives "
            f"{answer}; see `seatrial doctor`; {_OFF}"
        )


async def _said(turn: Turn, command: ExecSpec) -> str:
    result = await turn.trial.sandbox.exec(command)
    with suppress(UnicodeDecodeError):
        return result.stdout.decode().strip() if result.exit_code == 0 else ""
    return ""
