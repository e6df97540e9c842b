"""A hospital's side of a study: approval, the patients' file, and what may leave."""

from __future__ import annotations

import math
import traceback
import warnings
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedcox.deployment.approval import (
    Approvals,
    Request,
    schema_digest,
    study_code,
)
from fedcox.deployment.center_folder import CenterFolder, CenterSettings
from fedcox.deployment.study_words import shortfall
from fedcox.engines.nvflare.center_end import (
    Invitation,
    Leaving,
    NotNowError,
    OpenStudy,
    rules_in,
)
from fedcox.engines.nvflare.messages import Refusal
from fedcox.errors import (
    BudgetError,
    FedcoxWarning,
    InputError,
    RefusedError,
    StudyError,
)
from fedcox.federation.center import Center
from fedcox.federation.policy import Gate, budget_under
from fedcox.files.followed import append_rows
from fedcox.privacy.budget import Budget
from fedcox.privacy.study_memory import StudyMemory
from fedcox.shown_text import shown
from fedcox.study.admission import noised_replies, policy_faults, study_digest
from fedcox.study.asked import asked_by
from fedcox.study.expected_patients import check_own, check_times
from fedcox.study.noised_fit import spending
from fedcox.study.study import Study
from fedcox.study.study_scope import StudyScope

if TYPE_CHECKING:
    from fedcox.data.encoding import LoadedCohort
    from fedcox.federation.masked_center import MaskedCenter
    from fedcox.federation.noised_replies import NoisedReplies
    from fedcox.federation.policy import Policy
    from fedcox.privacy.budget import Budget
    from fedcox.privacy.identity import Identity, PublicIdentity
    from fedcox.study.noised_fit import Spending


class StudyAdmission:
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
        study, known = self._read_study(invitation), self._keys(invitation)
        code = study_code(study, invitation.centers, invitation.identities)
        self._check_approval(study, code, invitation, known)
        self._study, self._code = shown(study.name), code
        centers = len(invitation.centers)
        policy = self._policy(study, centers)
        loaded = self._patients(study)
        memory = self._remembered(study)
        memory.bind(loaded.cohort)
        gate = None if policy is None else Gate(policy, memory)
        private = study.privacy.noised
        noise = self._noise(study, policy, memory, centers) if private else None
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
            masked = self._masked(study, center, code, known, centers, memory)
        return OpenStudy(
            center,
            frozenset(asked_by(study)),
            schema_digest(study),
            masked,
            private,
            memory.now.mark,
            StudyScope(study, memory).allows,
            partial(
                _enough_of_them, self._folder.name, invitation, study.attendance.among(centers)
            ),
        )

    def check_agreed(self) -> None:
        decision = self._approvals.decision(self._code)
        if decision is not True:
            raise NotNowError(Refusal("waiting" if decision is None else "declined"))

    def leaving(self, rows: Sequence[Leaving]) -> None:
        heading = {"time": _now(), "study": self._study, "code": self._code}
        plain = [{key: _plain(value) for key, value in vars(row).items()} for row in rows]
        append_rows(self._folder.ledger, [{**heading, **row} for row in plain])

    def trouble(self, error: Exception) -> None:
        """Into the hospital's own log: words for a refusal, the whole trace for a fault."""
        if isinstance(error, InputError):
            lines = [error.subject, *(f"  {fault}" for fault in error.faults)]
            words = "\n".join(map(shown, lines))
        else:
            words = "".join(traceback.format_exception(error))
        self._folder.note(words)

    def _read_study(self, invitation: Invitation) -> Study:
        if invitation.version != version("fedcox"):
            self.trouble(
                InputError(
                    f"The coordinator runs fedcox {invitation.version}, this center "
                    f"{version('fedcox')}; they must be the same."
                )
            )
            raise NotNowError(Refusal("version"))
        centers = invitation.centers
        if self._folder.name not in centers or len(set(centers)) != len(centers):
            raise NotNowError(Refusal("order"))
        try:
            study = Study.parse(invitation.study, source="the study as it was sent")
            study = study.between_hospitals(len(centers))
            if study.privacy.noised:
                spending(study, len(centers))  # a price that cannot be had
        except StudyError as error:
            self.trouble(error)
            raise NotNowError(Refusal("study")) from error
        return study

    def _keys(self, invitation: Invitation) -> dict[str, PublicIdentity]:
        """The keys of the hospitals, this one's own among them; no stranger's."""
        from fedcox.privacy.identity import PublicIdentity

        try:
            known = {
                name: PublicIdentity.from_text(text)
                for name, text in invitation.identities.items()
            }
        except InputError as error:
            raise NotNowError(Refusal("keys")) from error
        here = known.get(self._folder.name)
        if here != self._identity().public or not set(known) <= set(invitation.centers):
            raise NotNowError(Refusal("keys"))
        return known

    def _check_approval(
        self,
        study: Study,
        code: str,
        invitation: Invitation,
        known: Mapping[str, PublicIdentity],
    ) -> None:
        decision = self._approvals.decision(code)
        if decision is False:
            raise NotNowError(Refusal("declined"))
        if self._approvals.find(code) is None:
            self._approvals.ask(
                Request(
                    code,
                    shown(study.name),
                    study.to_toml(),
                    tuple(sorted(invitation.centers)),
                    {name: each.fingerprint for name, each in known.items()},
                    _now(),
                )
            )
            if decision is True:
                self._folder.note(
                    f"The study “{shown(study.name)}” of the code {code} is answered. It was "
                    "approved here unseen: nobody read it before."
                )
        if decision is None:
            raise NotNowError(Refusal("waiting"))

    def _policy(self, study: Study, centers: int) -> Policy | None:
        """The hospital's policy, if there are limits, and the study is within them."""
        policy = self._settings.read_policy()
        faults = [] if policy is None else policy_faults(study, policy, centers=centers)
        if faults:
            refused = RefusedError("The hospital's policy does not allow this study.", faults)
            self.trouble(refused)
            raise NotNowError(Refusal("policy", rules_in(refused)))
        return policy

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
        check_times(study, loaded.cohort, str(file))
        return loaded

    def _noise(
        self, study: Study, policy: Policy | None, memory: StudyMemory, centers: int
    ) -> NoisedReplies:
        agreed = spending(study, centers)
        budget = budget_under(policy, self._settings.account(self._folder))
        if not memory.now.noised.rights:  # else it has begun to pay
            self._check_budget(budget, agreed)
        return noised_replies(study, agreed, budget, memory)

    def _check_budget(self, budget: Budget, agreed: Spending) -> None:
        """Before the first question: what the study needs must be left.

        It pays for its first sums, then for the others. Where another study took the rest in
        between, it is refused there.

        The coordinator is told how much that is. It depends on studies, not on patients, and is
        told for a study that was approved here alone.
        """
        try:
            budget.check(epsilon=agreed.epsilon, delta=agreed.delta)
        except BudgetError as error:
            self.trouble(error)
            raise NotNowError(Refusal("budget", shortfall(budget, agreed))) from error

    def _masked(
        self,
        study: Study,
        center: Center,
        code: str,
        known: Mapping[str, PublicIdentity],
        centers: int,
        memory: StudyMemory,
    ) -> MaskedCenter:
        from fedcox.federation.masked_center import MaskedCenter, smallest_sum
        from fedcox.privacy.secure_sum_center import SecureSumCenter

        sums = SecureSumCenter(
            center.name,
            code,
            self._identity(),
            known,
            smallest_sum=max(smallest_sum(center), study.attendance.among(centers)),
            memory=memory,
        )
        return MaskedCenter(center, sums)

    def _identity(self) -> Identity:
        from fedcox.privacy.identity import Identity

        return Identity.load(self._folder.identity)


def _enough_of_them(
    name: str, invitation: Invitation, needed: int, centers: Sequence[str]
) -> bool:
    """Whether a sum over these centers is one of the study that was approved."""
    among = frozenset(centers)
    return name in among <= frozenset(invitation.centers) and len(among) >= needed


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _now() -> str:
    return datetime.now().astimezone().isoformat(timespec="seconds")
