"""HarborEnv under the name that verifiers has for it."""

import pytest

from seatrial.compat.harbor import HarborEnv
from tests.conftest import MakeTask


@pytest.mark.parametrize(("given", "layout"), [({}, "verifiers"), ({"layout": "harbor"}, "harbor")])
def test_tests_run_where_verifiers_ran_them_unless_somebody_says_otherwise(make_task: MakeTask, given, layout) -> None:
    environment = HarborEnv("true", make_task("task").parent, **given)
    assert environment.trial_options.layout == layout
