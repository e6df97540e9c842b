"""A hospital's side of a study: approval, the patients' file, and what may leave."""

from __future__ import annotations

import math
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcox.analysis.admission import policy_faults, read_policy
from fedcox.analysis.asked import asked_by
from fedcox.analysis.expected_patients import check_own
from fedcox.analysis.kept_study import KeptStudy
from fedcox.analysis.study import Study
from fedcox.deployment.approval import Approvals, Request
from fedcox.deployment.followed_file import append_rows
from fedcox.deployment.private_files import read_json, write_private_json
from fedcox.deployment.study_code import schema_digest, study_code, study_digest
from fedcox.engines.nvflare.messages import Refusal
from fedcox.engines.nvflare.site import (
    Invitation,
    Leaving,
    NotNowError,
    OpenStudy,
    rules_in,
)
from fedcox.errors import (
    DeploymentError,
    FedcoxWarning,
    InputError,
    RefusedError,
    StudyError,
)
from fedcox.federation.center import Center
from fedcox.privacy.study_memory import StudyMemory
from fedcox.shown_text import shown

if TYPE_CHECKING:
    from fedcox.data.encoding import LoadedCohort
    from fedcox.deployment.center_folder import CenterFolder
    from fedcox.federation.masked_center import MaskedCenter
    from fedcox.federation.noised_replies import NoisedReplies
    from fedcox.privacy.gate import Gate
    from fedcox.privacy.identity import Identity, PublicIdentity

#: In place of a policy: nothing is refused, as for patients that are no secret.
NO_LIMITS = "none"


@dataclass(frozen=True)
class CenterSettings:
    """What `fedcox center start` was given: the patients' file and the hospital's policy."""

    data: str
    policy: str

    def write(self, file: Path) -> None:
        write_private_json(file, asdict(self))

    @classmethod
    def read(cls, file: Path) -> CenterSettings:
        told = read_json(file, "Start the center with `fedcox center start`.")
        try:
            return cls(str(told["data"]), str(told["policy"]))
        except KeyError as error:
            raise DeploymentError(
                f"{file} is damaged.", ["Start the center again with `fedcox center start`."]
            ) from error


class HospitalDesk:
    """Decides for one hospital, and keeps its ledger."""

    def __init__(self, folder: CenterFolder) -> None:
        self._folder = folder
        self._settings = CenterSettings.read(folder.settings)
        self._approvals = Approvals(folder.pending, folder.approved)
        self._study = self._code = ""
        self._memory: StudyMemory | None = None

    def close(self) -> None:
        """Let another process answer the study; one that ends does this by itself."""
        if self._memory is not None:
            self._memory.close()

    def introduce(self) -> dict[str, str]:
        return {"fedcox": version("fedcox"), "identity": self._identity().public.to_text()}

    def open(self, invitation: Invitation) -> OpenStudy:
        study = self._read_study(invitation)
        code = study_code(study, invitation.centers, invitation.identities)
        self._check_approval(study, code, invitation)
        self._study, self._code = shown(study.name), code
        loaded = self._patients(study)
        memory = self._remembered(study)
        memory.bind(loaded.cohort)
        gate = self._gate(study, len(invitation.centers), memory)
        private, centers = study.privacy.noised, len(invitation.centers)
        noise = self._noise(study, gate, memory, centers) if private else None
        center = Center(
            self._folder.name,
            loaded.cohort,
            loaded.dropped,
            loaded.filled,
            gate=gate,
            noise=noise,
        )
        masked = None
        if study.privacy.secure_sums:
            masked = self._masked(study, center, code, invitation, memory)
        return OpenStudy(
            center,
            frozenset(asked_by(study)),
            schema_digest(study),
            masked,
            private,
            memory.now.mark,
            KeptStudy(study).keeps_to,
        )

    def check_agreed(self) -> None:
        decision = self._approvals.decision(self._code)
        if decision is not True:
            raise NotNowError(Refusal("waiting" if decision is None else "declined"))

    def leaving(self, rows: Sequence[Leaving]) -> None:
        told = {"time": _now(), "study": self._study}
        plain = [{key: _plain(value) for key, value in vars(row).items()} for row in rows]
        append_rows(self._folder.ledger, [{**told, **row} for row in plain])

    def trouble(self, error: Exception) -> None:
        """Into the hospital's own log: words for a refusal, the whole trace for a fault."""
        if isinstance(error, InputError):
            lines = [error.subject, *(f"  {fault}" for fault in error.faults)]
            told = "\n".join(map(shown, lines))
        else:
            told = "".join(traceback.format_exception(error))
        with self._folder.trouble.open("a", encoding="utf-8") as file:
            file.write(f"{_now()} {told.rstrip()}\n")

    def _read_study(self, invitation: Invitation) -> Study:
        if invitation.version != version("fedcox"):
            self.trouble(
                InputError(
                    f"The coordinator runs fedcox {invitation.version}, this center "
                    f"{version('fedcox')}; they must be the same."
                )
            )
            raise NotNowError(Refusal("version"))
        if self._folder.name not in invitation.centers:
            raise NotNowError(Refusal("order"))
        try:
            return Study.parse(invitation.study, source="the study as it was sent")
        except StudyError as error:
            self.trouble(error)
            raise NotNowError(Refusal("study")) from error

    def _check_approval(self, study: Study, code: str, invitation: Invitation) -> None:
        decision = self._approvals.decision(code)
        if decision is True:
            return
        if decision is False:
            raise NotNowError(Refusal("declined"))
        if self._approvals.find(code) is None:
            self._approvals.ask(
                Request(
                    code,
                    shown(study.name),
                    study.source,
                    tuple(sorted(invitation.centers)),
                    self._fingerprints(invitation),
                    _now(),
                )
            )
        raise NotNowError(Refusal("waiting"))

    def _fingerprints(self, invitation: Invitation) -> dict[str, str]:
        if not invitation.identities:
            return {}
        return {name: each.fingerprint for name, each in _known(invitation).items()}

    def _remembered(self, study: Study) -> StudyMemory:
        folder = self._folder.memory / study_digest(study)
        if self._memory is None or self._memory.folder != folder:
            self.close()
            self._memory = StudyMemory(folder)
        return self._memory

    def _patients(self, study: Study) -> LoadedCohort:
        from fedcox.data.cohort_file import read_cohort

        file, name = Path(self._settings.data), self._folder.name
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", FedcoxWarning)
            loaded = read_cohort(file, study.schema, center=name)
        for warning in caught:
            self.trouble(InputError(str(warning.message)))
        check_own(study, loaded.cohort.patients, file)
        return loaded

    def _gate(self, study: Study, centers: int, memory: StudyMemory) -> Gate | None:
        if self._settings.policy == NO_LIMITS:
            return None
        from fedcox.privacy.gate import Gate

        policy = read_policy(self._settings.policy)
        faults = policy_faults(study, policy, centers=centers)
        if faults:
            refused = RefusedError("The hospital's policy does not allow this study.", faults)
            self.trouble(refused)
            raise NotNowError(Refusal("policy", rules_in(refused)))
        return Gate(policy, memory)

    def _noise(
        self, study: Study, gate: Gate | None, memory: StudyMemory, centers: int
    ) -> NoisedReplies:
        from fedcox.analysis.noised_fit import spending
        from fedcox.federation.noised_replies import NoisedReplies
        from fedcox.privacy.budget import Budget

        agreed = spending(study, centers)
        policy = None if gate is None else gate.policy
        budget = Budget(
            self._folder.budget,
            epsilon=None if policy is None else policy.epsilon,
            delta=None if policy is None else policy.delta,
        )
        return NoisedReplies(
            study_digest(study),
            agreed.delta,
            budget,
            memory=memory,
            name=study.name,
            most=agreed.epsilon,
            sums=agreed.sums,
        )

    def _masked(
        self,
        study: Study,
        center: Center,
        code: str,
        invitation: Invitation,
        memory: StudyMemory,
    ) -> MaskedCenter:
        from fedcox.federation.masked_center import MaskedCenter, smallest_sum
        from fedcox.privacy.party import Party

        party = Party(
            center.name,
            code,
            self._identity(),
            _known(invitation),
            smallest_sum=smallest_sum(center),
            memory=memory,
        )
        return MaskedCenter(center, party)

    def _identity(self) -> Identity:
        from fedcox.privacy.identity import Identity

        return Identity.load(self._folder.identity)


def _known(invitation: Invitation) -> dict[str, PublicIdentity]:
    from fedcox.privacy.identity import PublicIdentity

    return {
        name: PublicIdentity.from_text(text) for name, text in invitation.identities.items()
    }


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")
