"""What a record says about the system a verifier worked with."""

from seatrial.model.record import VerifierRun
from seatrial.verify.system.curate import NOTHING, Curated
from seatrial.verify.system.evidence import SystemEvidence, dispute_tag, system_tags, write_evidence

RUN = VerifierRun(exit_code=0, timed_out=False, duration_sec=1.0, isolation="guarded")


def categories(curated: Curated, planted: tuple[str, ...] = ()) -> list[str]:
    return [tag.category for tag in system_tags(curated, RUN, planted)]


def test_everything_that_was_done_has_a_tag():
    assert categories(NOTHING) == []
    assert categories(Curated(put_back={"/usr/bin/grep": "of the image"})) == ["verifier_tools_restored"]
    assert categories(Curated(hidden={"/app/json.py": "in front of the image's"})) == ["hidden_from_verifier"]
    assert categories(Curated(only_image=True, kept=("/x",))) == ["changes_truncated"]
    assert categories(Curated(kept=("/usr/local/bin/x",))) == ["system_changed"]
    assert categories(Curated(rewritten={"/etc/passwd": "x"})) == ["verifier_tools_restored"]
    assert categories(Curated(rewritten={"/x.pth": "/app"})) == []
    assert categories(NOTHING, ("/usr/x",)) == ["changed_during_verification"]


def test_a_dispute_names_both_verdicts():
    assert "0 on the verifier's own system, 1 on" in str(dispute_tag(0.0, 1.0).description)


def test_all_of_it_is_stored(tmp_path):
    write_evidence(tmp_path / "system.json", Curated(put_back={"/a": "of the image"}, kept=("/b",)))
    stored = SystemEvidence.model_validate_json((tmp_path / "system.json").read_bytes())
    assert (stored.put_back, stored.kept) == ({"/a": "of the image"}, ("/b",))
