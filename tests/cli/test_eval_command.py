"""`seatrial eval`: what is run, shown and kept, what the exit code says, and that a broken run can be gone on with."""

import json
import signal
import sys

import pytest

from tests.cli.conftest import Seatrial, cells, on_terminal, start

GAME = """
import os, signal
from pathlib import Path
import seatrial as vf

class Guessing(vf.MultiTurnEnv):
    async def env_response(self, messages, state, **kwargs):
        guess, number = int(messages[-1]["content"]), state["info"]["number"]
        if number == 2 and Path("signal").exists():
            os.kill(os.getpid(), int(Path("signal").read_text()))
        if guess == number:
            state["final_env_response"] = "right"
        return "right" if guess == number else "higher" if guess < number else "lower"

def won(completion):
    return float(completion[-1]["content"] == "right")

def load_environment(numbers=3, broken=False):
    rows = [{"question": f"Guess {n}.", "info": {"number": None if broken and n == 1 else n}} for n in range(numbers)]
    return Guessing(dataset=rows, rubric=vf.Rubric([won]), max_turns=3)
"""
HALF_GROUP = """
import seatrial as vf

def half(completion):
    return 0.5

def load_environment():
    rubrics = [vf.Rubric([half]), vf.Rubric([half])]
    envs = [vf.SingleTurnEnv(dataset=[{"question": "?"}], rubric=each, pass_threshold=mark)
            for each, mark in zip(rubrics, (0.5, 1.0))]
    return vf.EnvGroup(envs)
"""
SCRIPT = ("--upstream", "scripted:script.jsonl", "-m", "toy")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (tmp_path / "game_of_eval.py").write_text(GAME)
    (tmp_path / "script.jsonl").write_text('"0"\n"1"\n"2"\n')
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("game_of_eval", None)


def evaluate(seatrial: Seatrial, *options: object):
    return seatrial("eval", "game_of_eval.py", *SCRIPT, *options)


def last_event(text: str):
    return json.loads(text.splitlines()[-1])


def metadata(folder):
    return json.loads((folder / "metadata.json").read_text())


def test_the_summary_has_means_and_what_they_are_of(seatrial: Seatrial, here):
    done = evaluate(seatrial, "-r", 2, "-o", "out")
    assert done.code == 0, done.err
    assert ["toy", "0.667", "0.077 to 1.000", "4 of 6", "6 of 6"] in [cells(line) for line in done.out.splitlines()]
    assert "pass@k: 1: 0.667, 2: 0.667" in done.out
    assert "won        0.667         6" in done.out
    assert "show out" in done.err
    assert metadata(here / "out")["avg_reward"] == pytest.approx(2 / 3)
    assert metadata(here / "out")["status"] == "complete"
    assert len((here / "out/results.jsonl").read_text().splitlines()) == 6


def test_results_have_a_place_of_their_own(seatrial: Seatrial, here):
    evaluate(seatrial, "-n", 1, "-r", 1)
    evaluate(seatrial, "-n", 1, "-r", 1)
    assert len(list((here / "outputs/evals/game_of_eval--toy").iterdir())) == 2


def test_there_are_no_more_examples_than_rows_however_many_are_asked_for(seatrial: Seatrial, here):
    for asked in (10, -1):
        evaluate(seatrial, "-n", asked, "-r", 2, "-o", f"out{asked}")
        kept = metadata(here / f"out{asked}")
        assert (kept["num_examples"], kept["rollouts_per_example"], kept["planned"]) == (3, 2, 6)


def test_what_a_group_counts_as_passed_is_still_known_when_it_is_shown_again(seatrial: Seatrial, here):
    (here / "half_group.py").write_text(HALF_GROUP)
    first = seatrial("eval", "half_group.py", *SCRIPT, "-r", 1, "-o", "half")
    again = seatrial("show", "half")
    assert metadata(here / "half")["pass_thresholds"] == {"env_0": 0.5, "env_1": 1.0}
    assert metadata(here / "half")["passed"] == 1
    assert [line for line in first.out.splitlines() if "1 of 2" in line]
    assert [line for line in again.out.splitlines() if "1 of 2" in line]
    sys.modules.pop("half_group", None)


def test_nothing_is_kept_where_nothing_should_be(seatrial: Seatrial, here):
    done = evaluate(seatrial, "-n", 1, "--no-save-results")
    assert (done.code, "Nothing was kept" in done.err) == (0, True)
    assert not (here / "outputs").exists()


def test_programs_are_told_in_json(seatrial: Seatrial):
    done = evaluate(seatrial, "-n", 2, "-r", 1, "--json")
    end = last_event(done.out)
    assert (end["event"], end["ended"], end["exit_code"], end["summary"]["scored"]) == (
        "evaluation_finished",
        "complete",
        0,
        2,
    )


def test_a_failed_rollout_is_no_zero_and_costs_the_exit_code(seatrial: Seatrial):
    done = evaluate(seatrial, "-r", 1, "-a", '{"broken": true}')
    assert done.code == 1
    assert "2 of 3" in done.out
    assert "not scored: 1 rollout, hook: HookError: env_response failed: TypeError" in done.out
    assert "the mean would be 0.333 with 1 rollout without a reward as 0" in done.out
    assert "1 of 3 rollouts came to nothing" in done.err
    assert evaluate(seatrial, "-r", 1, "-a", '{"broken": true}', "--max-failed", 0.5).code == 0


@pytest.mark.parametrize(("gate", "code"), [("0.6", 0), ("0.7", 1)])
def test_a_mean_below_the_gate_is_1(seatrial: Seatrial, gate, code):
    assert evaluate(seatrial, "-r", 1, "--fail-under", gate).code == code


def test_the_project_of_an_environment_says_how_much(seatrial: Seatrial, here):
    (here / "game_env").mkdir()
    (here / "game_of_eval.py").rename(here / "game_env/game_env.py")
    (here / "game_env/pyproject.toml").write_text(
        "[tool.verifiers.eval]\nnum_examples = 2\nrollouts_per_example = 4\n[tool.seatrial.eval]\nnum_examples = 1\n"
    )
    done = seatrial("eval", "game_env", *SCRIPT, "--json")
    sys.modules.pop("game_env")
    assert last_event(done.out)["summary"]["planned"] == 4


@pytest.mark.parametrize(
    "typed", [("-N",), ("-f",), ("--abbreviated-summary",), ("-H",), ("-w", "auto"), ("--save-every", 3), ("-D", "")]
)
def test_options_without_effect_are_refused(seatrial: Seatrial, typed):
    done = evaluate(seatrial, "-n", 1, *typed)
    assert done.code == 2
    assert "has no effect in Seatrial and was removed; leave it out" in done.err


def test_attributes_are_set_on_the_environment(seatrial: Seatrial):
    done = evaluate(seatrial, "-n", 3, "-r", 1, "-x", '{"max_turns": 4}', "--timeout", "20s", "--json")
    assert last_event(done.out)["summary"]["avg_reward"] == 1.0
    wrong = evaluate(seatrial, "-x", '{"numbers": 3}')
    assert (wrong.code, "Guessing has no attribute 'numbers'" in wrong.err) == (2, True)


def test_examples_are_chosen_by_lot(seatrial: Seatrial, here):
    for seed in (1, 1, 2):
        evaluate(seatrial, "-a", '{"numbers": 50}', "-n", 3, "-r", 1, "--shuffle", "--seed", seed)
    folders = sorted((here / "outputs/evals/game_of_eval--toy").iterdir())
    lines = [(each / "results.jsonl").read_text().splitlines() for each in folders]
    chosen = [[json.loads(line)["example_id"] for line in each] for each in lines]
    assert sorted(chosen[0]) == sorted(chosen[1]) != sorted(chosen[2])
    assert metadata(folders[0])["shuffle_seed"] == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("-a", "{x"), "'{x' is not JSON"),
        (("-a", "[1]"), "is JSON and no object"),
        (("-a", '{"nubmers": 1}'), "takes no argument 'nubmers'; did you mean numbers?"),
        (("-S", "3"), "is JSON and no object"),
        (("-b", "http://127.0.0.1:1/v1"), "--upstream says where the model is"),
        (("--resume", "--no-save-results"), "--resume goes on with results that are kept"),
        (("--resume", "nowhere"), "nowhere: has no evaluation to go on with"),
        (("--engine", "ray"), "engine='ray' is for rollouts that are trials"),
        (("-r", "0"), "0 is not in the range"),
        (("--header", "nothing"), "write 'Name: value'"),
    ],
)
def test_what_the_user_can_mend_is_2(seatrial: Seatrial, here, options, message):
    done = evaluate(seatrial, *options)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert not (here / "outputs/evals/game_of_eval--toy").exists()


def test_a_key_that_is_not_there_is_2_and_leaves_nothing(seatrial: Seatrial, here):
    done = seatrial("eval", "game_of_eval.py")
    assert (done.code, "needs a key: set the variable OPENAI_API_KEY" in done.err) == (2, True)
    assert list((here / "outputs/evals").iterdir()) == []


def test_a_module_that_fails_has_a_traceback_only_for_those_who_ask(seatrial: Seatrial, here):
    (here / "failing_of_eval.py").write_text("def load_environment():\n    return 1 / 0\n")
    plain = seatrial("eval", "failing_of_eval.py", *SCRIPT)
    full = seatrial("eval", "failing_of_eval.py", *SCRIPT, "--debug")
    assert plain.code == full.code == 2
    assert plain.err.count("\n") == 1
    assert "failing_of_eval.py, line 2, in load_environment: ZeroDivisionError: division by zero" in plain.err
    assert "Traceback" in full.err


def test_an_interrupted_evaluation_is_130_and_goes_on(seatrial: Seatrial, here):
    (here / "signal").write_text(str(int(signal.SIGINT)))
    broken = evaluate(seatrial, "-r", 2, "-c", 1)
    assert broken.code == 130
    assert "4 of 6" in broken.out
    assert "2 rollouts not run yet" in broken.out
    (folder,) = (here / "outputs/evals/game_of_eval--toy").iterdir()
    assert f"Interrupted. 4 of 6 rollouts are kept in {folder.relative_to(here)}." in broken.err
    assert metadata(folder)["status"] == "incomplete"
    (here / "signal").unlink()
    done = evaluate(seatrial, "-r", 2, "--resume", "--json")
    assert last_event(done.out)["folder"] == str(folder.relative_to(here))
    assert len((folder / "rollouts.jsonl").read_text().splitlines()) == 6
    assert metadata(folder)["status"] == "complete"


@pytest.mark.whole
def test_a_killed_evaluation_is_shown_and_goes_on(seatrial: Seatrial, here):
    (here / "signal").write_text(str(int(signal.SIGKILL)))
    assert start("eval", here / "game_of_eval.py", *SCRIPT, "-r", 1, "-c", 1, "-o", "out").code == -signal.SIGKILL
    shown = seatrial("show", "out")
    assert ("2 of 3" in shown.out, "1 rollout not run yet" in shown.out) == (True, True)
    again = evaluate(seatrial, "-r", 1, "-o", "out")
    assert (again.code, "out: holds results already; go on with them by --resume out" in again.err) == (2, True)
    (here / "signal").unlink()
    assert evaluate(seatrial, "-r", 1, "-o", "out", "--resume").code == 0
    assert seatrial("show", "out", "--json").out.count('"scored": 3') == 1


def test_only_the_same_evaluation_is_gone_on_with(seatrial: Seatrial):
    evaluate(seatrial, "-n", 1, "-o", "out")
    other = evaluate(seatrial, "-n", 1, "-T", 0.5, "--resume", "out")
    assert other.code == 2
    assert "sampling_args was {} and is {'temperature': 0.5}" in other.err


def test_a_mark_that_was_another_is_told(seatrial: Seatrial, here):
    evaluate(seatrial, "-n", 1, "-o", "out")
    file = here / "out/metadata.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "pass_threshold": 0.5}))
    again = evaluate(seatrial, "-n", 1, "--resume", "out")
    assert (again.code, "rollouts passed from 0.5 on when this evaluation began" in again.err) == (0, True)


def test_a_finished_one_is_not_gone_on_with_by_itself(seatrial: Seatrial, here):
    for _ in range(2):
        assert evaluate(seatrial, "-n", 1, "-r", 1, "--resume").code == 0
    assert len(list((here / "outputs/evals/game_of_eval--toy").iterdir())) == 2


@pytest.mark.whole
def test_a_terminal_gets_the_live_display(here):
    command = (sys.executable, "-m", "seatrial", "eval", "game_of_eval.py", *SCRIPT, "-n", "1", "-r", "1", "-o", "out")
    shown = on_terminal(command)
    assert "━━━" in shown
    assert "mean reward" in shown
