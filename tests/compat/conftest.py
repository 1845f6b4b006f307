import importlib
import sys

import pytest

from seatrial.compat.finder import CompatFinder, behave_alike, is_ours


def _forget():
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, CompatFinder)]
    for name in [name for name, module in sys.modules.items() if is_ours(module)]:
        del sys.modules[name]
    sys.modules.pop("seatrial.compat.verifiers", None)
    behave_alike(alike=False)


@pytest.fixture
def compat():
    """`seatrial.compat.verifiers`, imported afresh and so installed; nothing of it is left afterwards."""
    _forget()
    yield importlib.import_module("seatrial.compat.verifiers")
    _forget()
