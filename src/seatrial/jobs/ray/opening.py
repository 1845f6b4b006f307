"""Ray itself: importing it, connecting to a cluster or starting one here, and sending a program's trials by its pickle.

Nothing else of the engine imports Ray but `ray_cluster.py`, which is only loaded once Ray is there.
"""

import base64
import importlib
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, cast

from seatrial.errors import UsageError
from seatrial.jobs.engine import PortableTrials

if TYPE_CHECKING:
    from seatrial.jobs.ray.ray_cluster import RayCluster

# Connecting to Ray, or starting it: on this machine for one run, or the user's own cluster, which is never stopped.


_ANSWER_SEC = 10.0
# A Ray of our own has nothing to schedule, and what goes through its shared memory is small.
_OWN = {"num_cpus": 0, "num_gpus": 0, "include_dashboard": False, "object_store_memory": 256 * 2**20}
# Ray's daemons report to its makers unless they are told not to; those of a cluster are not ours to tell.
_REPORTS = "RAY_USAGE_STATS_ENABLED"
# Ray prints what its daemons say to our terminal; this is its way to be told which lines not to.
_QUIET = {"RAY_DEDUP_LOGS_SKIP_REGEX": ".", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


def import_ray() -> ModuleType:
    """Ray itself. Raises UsageError where it is not installed."""
    known = {name: os.environ.get(name) for name in _QUIET}
    os.environ.update({name: value for name, value in _QUIET.items() if known[name] is None})
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise UsageError(f"the engine 'ray' needs Ray: pip install 'seatrial[ray]' ({error})") from error
    finally:
        for name, value in known.items():
            if value is None:
                os.environ.pop(name, None)


@contextmanager
def connected(address: str | None) -> Iterator["RayCluster"]:
    """The cluster at an address, or this machine as one, for the length of a block; a program's own if it has one.

    Raises UsageError when there is none.
    """
    ray = import_ray()
    from seatrial.jobs.ray.ray_cluster import RayCluster  # noqa: PLC0415 - Ray is there only now

    if ray.is_initialized():
        yield RayCluster()
        return
    _connect(ray, address)
    try:
        yield RayCluster()
    finally:
        ray.shutdown()


def _connect(ray: ModuleType, address: str | None) -> None:
    if address:
        _check_address(address)
    logging.getLogger("ray").setLevel(logging.CRITICAL)
    own = {} if address else _OWN
    if not address:
        os.environ.setdefault(_REPORTS, "0")
    with _own_signals():
        try:
            ray.init(address or "local", log_to_driver=False, configure_logging=False, **own)
        except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
            where = f"at {address}" if address else "on this machine"
            message = f"there is no Ray {where} that could be used: {error}"
            if address:
                message += "; if it asks for a token, set RAY_AUTH_MODE=token here too, and have its token in "
                message += "~/.ray/auth_token or RAY_AUTH_TOKEN"
            raise UsageError(message) from error


def _check_address(address: str) -> None:
    """Raise UsageError for an address where nothing answers: Ray itself would wait there for many minutes."""
    if address.startswith("ray://"):
        raise UsageError(
            f"{address}: Ray's client cannot be used; run this on a machine of the cluster, --address auto"
        )
    host, _, port = address.rpartition(":")
    if not host:
        return
    if not port.isdecimal():
        raise UsageError(f"{address!r} is no address of a cluster; expected auto, or HOST:PORT")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _ANSWER_SEC).close()
    except OSError as error:
        raise UsageError(
            f"no cluster answers at {address}: {error.strerror or error}; see `ray status` there"
        ) from None


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep our way to be ended: Ray takes SIGTERM for itself, also below Python, where it prints a trace."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


# Trials that are carried out by something a program brings along, such as an environment: sent to nodes, pickled.
#
# Classes of the program itself go by value. What it imports has to be installed on the nodes.


def pack_trials(trials: PortableTrials) -> str:
    """What is sent to nodes. Raises UsageError for what cannot be."""
    pickle = import_ray().cloudpickle
    modules = list(trials.modules)
    for module in modules:
        pickle.register_pickle_by_value(module)
    try:
        packed = pickle.dumps(trials)
    except UsageError:
        raise
    except Exception as error:  # anybody's classes may fail in any way
        raise UsageError(f"this cannot be sent to other machines: {type(error).__name__}: {error}") from error
    finally:
        for module in modules:
            pickle.unregister_pickle_by_value(module)
    return base64.b64encode(packed).decode()


def unpack_trials(text: str) -> PortableTrials:
    """What has arrived on a node. Raises UsageError when something that it needs is not there."""
    try:
        return cast(PortableTrials, import_ray().cloudpickle.loads(base64.b64decode(text)))
    except Exception as error:
        raise UsageError(
            f"what carries out the trials cannot be loaded there: {type(error).__name__}: {error}; install what it "
            "imports where that node's Ray runs"
        ) from error
