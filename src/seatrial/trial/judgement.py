"""Judgement: what one run of a verifier gave, how it ran, what it rests on, and the evaluation it amounts to."""

import hashlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from seatrial.model.artifacts import DETAILS_NAMES, RawArtifacts, RawFile
from seatrial.model.evaluation import EvaluationResult
from seatrial.model.job import TrialOptions
from seatrial.model.record import FileChanges, Provenance, VerifierRun
from seatrial.sandbox.api import ExecResult
from seatrial.sandbox.host.watch import Company
from seatrial.scoring.ingest import ingest
from seatrial.scoring.repeats import RepeatedVerdicts, with_repeats
from seatrial.scoring.reward import Verdict, read_verdict
from seatrial.trial.rounds import Round
from seatrial.trial.shield import Shield
from seatrial.trial.verification import Verification
from seatrial.trial.work import merge_changes
from seatrial.verify.integrity import integrity_tags, led_astray, link_tags, output_tags, service_tags
from seatrial.verify.reads import all_names, unexpected, used_files
from seatrial.verify.system.curate import NOTHING, Curated
from seatrial.verify.system.evidence import dispute_tag, system_tags, write_evidence

NAMED = 200  # files that a record names itself; system.json beside the verifier's files has all


@dataclass(frozen=True, slots=True)
class Judgement:
    """What verification gave: how it ran, what it rests on, the artifacts to score, and the verdict in them.

    `disputed` is the higher reward that the same verifier gave on the system as the agent left it, if it did.
    `repeated` has all verdicts where it was asked more than once. `used` are the agent's files that were opened
    meanwhile, with all their names; None if not watched. `astray` are its links to the verifier's files.
    """

    run: VerifierRun
    provenance: Provenance
    raw: RawArtifacts
    verdict: Verdict
    curated: Curated = NOTHING
    planted: tuple[str, ...] = ()
    disputed: float | None = None
    repeated: RepeatedVerdicts | None = None
    used: Mapping[str, frozenset[str]] | None = None
    astray: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VerifierOutcome:
    """How a verifier ended, the files it wrote, the digest of the tests that it ran, and its time.

    With a `company` of `none`, it was asked once more, and no other verifier ran beside it. `agents` are the agent's
    files that it could meet.
    """

    ended: ExecResult
    files: Mapping[str, RawFile]
    tests_digest: str
    timeout_sec: float
    company: Company
    agents: Collection[str] = ()


def read_judgement(verification: Verification, outcome: VerifierOutcome, shield: Shield, logs: str) -> Judgement:
    """What a verifier's run says, believing nothing. Evidence of what was kept from it goes beside its logs."""
    raw = RawArtifacts(outcome.files, verification.work.output, outcome.ended.exit_code, outcome.ended.timed_out)
    if shield.curated.anything or shield.curated.kept:
        write_evidence(verification.folder / logs / "system.json", shield.curated)
    round_, options = verification.round, verification.options
    verdict = read_verdict(raw, round_.judged.verifier, options.reward_policy, round_.verdict(options))
    opened = outcome.ended.opened
    used = None if opened is None else used_files(opened, frozenset(outcome.agents))
    listed = unexpected(used, verification.expectations) if used and all_names(used) - verification.asked_for else ()
    run = _describe_run(verification, outcome, shield, logs).model_copy(
        update={
            "reads": "unwatched" if opened is None else "watched" if opened.complete else "partly",
            "agent_files_used": listed[:NAMED],
            "agent_files_used_count": len(listed),
        }
    )
    provenance = _provenance(verdict.file, raw, outcome.tests_digest)
    astray = led_astray(opened.links) if opened else ()
    return Judgement(run, provenance, raw, verdict, shield.curated, used=used, astray=astray)


def visible_files(verification: Verification, shield: Shield) -> tuple[str, ...]:
    """The files that the agent made or changed and the verifier meets so, without those of the system.

    Of these, the record names what was not put back by a tag.
    """
    if shield.isolation == "separate":
        return tuple(path for path in verification.work.handed_over() if path not in shield.curated.hidden)
    found = merge_changes([verification.earlier, verification.work.found])
    hidden = tuple(f"{path}/" for path in shield.curated.hidden)
    gone = {*shield.curated.hidden, *shield.curated.put_back}
    changed = {*found.added, *found.modified}
    shared = changed.difference(verification.division.of_system(changed), gone)
    return tuple(sorted(path for path in shared if not path.startswith(hidden)))


def _describe_run(verification: Verification, outcome: VerifierOutcome, shield: Shield, logs: str) -> VerifierRun:
    ended = outcome.ended
    base, curated = Path(verification.round.folder, logs).as_posix(), shield.curated
    return VerifierRun(
        exit_code=ended.exit_code,
        timed_out=ended.timed_out,
        duration_sec=ended.duration_sec,
        isolation=shield.isolation,
        survivors=verification.work.survivors,
        services=verification.work.services,
        restored=tuple(sorted(curated.put_back)[:NAMED]),
        restored_count=len(curated.put_back),
        hidden=tuple(sorted(curated.hidden)[:NAMED]),
        hidden_count=len(curated.hidden),
        shielded=shield.owned or shield.copied,
        trust="as_left" if verification.trusts_agent else "reference" if curated.expected else "image",
        reference_units=curated.others[:NAMED],
        truncated=ended.truncated,
        layout=verification.options.layout,
        timeout_sec=outcome.timeout_sec,
        cpu_sec=ended.cpu_sec,
        cpu_wait_sec=ended.cpu_wait_sec,
        retried_alone=outcome.company == "none",
        stdout_path=f"{base}/stdout.txt",
        stderr_path=f"{base}/stderr.txt",
    )


def _provenance(reward_file: str | None, raw: RawArtifacts, digest: str) -> Provenance:
    said = raw.file(reward_file).data if reward_file else None
    return Provenance(
        tests_digest=digest,
        reward_file=reward_file,
        reward_sha256=hashlib.sha256(said).hexdigest() if said is not None else None,
        details_file=next((name for name in DETAILS_NAMES if raw.file(name).status == "ok"), None),
    )


def evaluate(round_: Round, judgement: Judgement, options: TrialOptions) -> EvaluationResult:
    """The evaluation that a verdict alone amounts to, whatever else was found."""
    return ingest(round_.judged, judgement.raw, options.reward_policy, round_.verdict(options))


def score(round_: Round, judgement: Judgement, changes: FileChanges, options: TrialOptions) -> EvaluationResult:
    """The evaluation of a round, with a tag for every trace the agent left on its judge's tools."""
    evaluation = evaluate(round_, judgement, options)
    if judgement.repeated:
        evaluation = with_repeats(evaluation, judgement.repeated)
    tags = [
        *integrity_tags(changes, judgement.run.survivors),
        *(output_tags(judgement.raw.output) or link_tags(judgement.astray)),
        *system_tags(judgement.curated, judgement.run, judgement.planted),
    ]
    if evaluation.reward < options.pass_threshold:
        tags += service_tags(judgement.run)
    if judgement.disputed is not None:
        tags.append(dispute_tag(evaluation.reward, judgement.disputed))
    if not tags:
        return evaluation
    return evaluation.model_copy(update={"error_taxonomy": [*(evaluation.error_taxonomy or ()), *tags]})
