"""What does a hospital allow to leave? Its own `policy.toml`; no coordinator loosens it.

A `Policy` holds the rules; a `Gate` stands between one study and the hospital's patients, and
counts what it lets through. Here each question is checked; a whole study is before it begins,
in `study/admission.py`.
"""

from __future__ import annotations

import difflib
import json
import textwrap
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from fedcox.errors import PolicyError, RefusedError
from fedcox.federation.queries import answered_by_default, answered_if_named
from fedcox.files.reading import parse_toml, read_toml
from fedcox.survival.bounds import MOST_EPSILON

if TYPE_CHECKING:
    from fedcox.privacy.budget import Budget
    from fedcox.privacy.study_memory import StudyMemory

#: Without a delta an epsilon is no limit: this one stands beside an epsilon given alone.
USUAL_DELTA = 1e-3
#: What stood in tables before, and where it is now.
_TABLES = {
    "cohort": "columns is a line of its own, and centers of any size take part",
    "groups": "groups of any size are allowed, see exact_sums",
    "blocks": "what may leave is said by exact_sums",
    "questions": 'questions = ["…"] is a line of its own, and exact_sums says the rest',
    "parameters": "rounds is a line of its own; no other limit is left",
    "protection": "centers is a line of its own; secure sums are in the study",
    "differential_privacy": "epsilon and delta are lines of their own, and noise is required "
    "unless exact_sums = true",
}
_EXACT = (
    "exact_sums: sums would leave without noise, and patients may be computed from them. Give "
    "the study a [privacy.noise], or the hospital's policy exact_sums = true."
)
_NEARLY_EXACT = (
    f"exact_sums: noise of an epsilon beyond {MOST_EPSILON:g} is next to none. Give the study "
    "a smaller epsilon, or the hospital's policy exact_sums = true."
)
_WIDTH = 96
_LONGEST_SHOWN = 60
_HEADER = (
    "What may leave this hospital. Its own center reads this file and refuses what it does not "
    "allow; no coordinator can change it. A key that is left out keeps its default."
)


def _only(test: Callable[[Any], bool], needed: str) -> BeforeValidator:
    """Values that pass `test`; for others the fault says what is `needed`."""

    def checked(value: Any) -> Any:
        if not test(value):
            raise PydanticCustomError("not_what_is_needed", "{needed}", {"needed": needed})
        return tuple(value) if isinstance(value, list) else value

    return BeforeValidator(checked)


def _names(value: Any) -> bool:
    several = isinstance(value, list | tuple)
    return value == "all" or (several and all(isinstance(name, str) and name for name in value))


def _between(value: Any, low: float, high: float) -> bool:
    return type(value) in (int, float) and low < value < high


Names = Annotated[
    Literal["all"] | tuple[str, ...], _only(_names, 'a list of names in quotes, or "all"')
]
Truth = Annotated[bool, _only(lambda value: isinstance(value, bool), "true or false")]
Count = Annotated[
    int, _only(lambda v: type(v) is int and v >= 1, "a whole number of at least 1")
]
Centers = Annotated[
    int,
    _only(
        lambda v: type(v) is int and v >= 3,
        "a whole number of at least 3, since of two each would learn the other's numbers,",
    ),
]
Epsilon = Annotated[
    float, _only(lambda v: _between(v, 0.0, float("inf")), "a finite number above 0")
]
Delta = Annotated[float, _only(lambda v: _between(v, 0.0, 1.0), "a number between 0 and 1")]


class Policy(BaseModel):
    """One hospital's rules, frozen: `Policy.read("policy.toml")`, or its keys as keywords.

    `Policy()` has the defaults; a key that is left out keeps its default.

    >>> Policy(epsilon=10).exact_sums
    False
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    columns: Names = Field(
        default="all", description='columns of the file that a study may use, or "all"'
    )
    questions: Names = Field(
        default=answered_by_default(),
        description='questions that are answered, by their name in the ledger, or "all"; '
        "networks without noise, features of slides and times of single patients are asked "
        f"about where these are added: {', '.join(answered_if_named())}; and some of the "
        'patients by names such as "gradient of a batch"',
    )
    exact_sums: Truth = Field(
        default=False,
        description="whether sums may leave without noise: whoever sees the totals may then be "
        "able to compute patients, however many a sum is over",
    )
    epsilon: Epsilon | None = Field(
        default=None, description="most epsilon that all studies together may spend"
    )
    delta: Delta | None = Field(
        default=None,
        description="most delta that all studies together may spend; "
        f"{USUAL_DELTA:g} where an epsilon is given and no delta",
    )
    centers: Centers = Field(default=3, description="fewest centers in a secure sum")
    rounds: Count = Field(default=200, description="most questions that one study is answered")

    def __init__(self, /, **keys: Any) -> None:
        """Check every key; all faults are raised at once as a `PolicyError`."""
        if keys.get("epsilon") is not None and keys.get("delta") is None:
            keys["delta"] = USUAL_DELTA
        try:
            super().__init__(**keys)
        except ValidationError as error:
            faults = error.errors(include_url=False, include_context=True)
            sentences = list(dict.fromkeys(map(_sentence, faults)))
            raise PolicyError("This policy cannot be used as it is.", sentences) from None

    @classmethod
    def read(cls, path: str | Path) -> Policy:
        """Read a policy file (TOML, UTF-8)."""
        text = read_toml(path, kind="policy", error=PolicyError)
        return cls.parse(text, source=str(Path(path)))

    @classmethod
    def parse(cls, text: str, *, source: str = "policy") -> Policy:
        """Read a policy from TOML text; `source` names it in errors."""
        keys = parse_toml(text, source=source, error=PolicyError)
        try:
            return cls(**keys)
        except PolicyError as error:
            subject = f"{source}: this policy cannot be used as it is."
            raise PolicyError(subject, error.faults) from None

    @classmethod
    def without_limits(cls) -> Policy:
        """Everything leaves: for one analyst who holds every file, and for simulations."""
        return cls(questions="all", exact_sums=True, rounds=10**9)

    def faults(
        self,
        *,
        columns: Iterable[str] = (),
        questions: Iterable[str] = (),
        noised: bool = True,
        rounds: int = 0,
        centers: int | None = None,
        epsilon: float = 0.0,
        delta: float = 0.0,
    ) -> list[str]:
        """What of a study, or of one question, is refused: a sentence for each rule.

        `columns` are those of the hospital's file that the study uses, `questions` those it
        asks, `noised` says whether all replies have noise, and `rounds` how many are asked for.
        `centers` are those of a secure sum, None where there is none; `epsilon` and `delta`
        are what the study spends.
        """
        faults = []
        for key, names, verb in (
            ("columns", columns, "be used; leave out of the study"),
            ("questions", questions, "be asked here"),
        ):
            allowed = getattr(self, key)
            refused = [f"'{name}'" for name in names if name not in allowed]
            if refused and allowed != "all":
                faults.append(f"{key}: {', '.join(refused)} may not {verb}.")
        if not (noised or self.exact_sums):
            faults.append(_EXACT)
        elif epsilon > MOST_EPSILON and not self.exact_sums:
            faults.append(_NEARLY_EXACT)
        if centers is not None and centers < self.centers:
            faults.append(
                f"centers: found {centers} in a secure sum; at least {self.centers} are needed."
            )
        for key, asked, words in (
            ("rounds", rounds, "questions are answered"),
            ("epsilon", epsilon, "may be spent by all studies together"),
            ("delta", delta, "may be spent by all studies together"),
        ):
            most = getattr(self, key)
            if most is not None and asked > most:
                faults.append(f"{key}: the study asks for {asked:g}; at most {most:g} {words}.")
        return faults

    def to_toml(self) -> str:
        """The policy as the text of a policy file, every key with what it means."""
        parts = [_comment(_HEADER)]
        for key, field in type(self).model_fields.items():
            value = getattr(self, key)
            line = f"# {key} =" if value is None else f"{key} = {_value(value)}"
            parts.append(f"{_comment(str(field.description))}\n{line}")
        return "\n\n".join(parts) + "\n"


def _sentence(details: ErrorDetails) -> str:
    key = str(details["loc"][0])
    if key in _TABLES and isinstance(details["input"], Mapping):
        return f"[{key}]: a policy has no tables any more: {_TABLES[key]}."
    if details["type"] != "extra_forbidden":
        needed = details.get("ctx", {}).get("needed", "something else")
        return f"{key}: found {_shown(details['input'])}; {needed} is needed."
    keys = list(Policy.model_fields)
    near = difflib.get_close_matches(key.lower(), keys, n=1, cutoff=0.6)
    hint = f" Did you mean '{near[0]}'?" if near else ""
    return f"{key}: unknown key.{hint} The keys are {', '.join(keys)}."


def _shown(value: Any) -> str:
    """A value of the file as TOML has it, cut off where it grows long."""
    if isinstance(value, Mapping):
        return "a table"
    text = _toml(value)
    return text if len(text) <= _LONGEST_SHOWN else text[: _LONGEST_SHOWN - 1] + "…"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # A JSON string is a TOML basic string but for DEL, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007F")
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(entry) for entry in value) + "]"
    return str(value)


def _value(value: Any) -> str:
    """A list of names that does not fit into a line is written one below the other."""
    text = _toml(value)
    if len(text) <= _WIDTH // 2 or not isinstance(value, tuple):
        return text
    return "\n".join(["[", *(f"    {_toml(entry)}," for entry in value), "]"])


def _comment(text: str) -> str:
    return "\n".join(f"# {line}" for line in textwrap.wrap(text, _WIDTH - 2))


def budget_under(policy: Policy | None, path: str | Path) -> Budget:
    """The account of a hospital at `path`, as its own policy limits it; None: no limits."""
    from fedcox.privacy.budget import Budget

    if policy is None:
        return Budget(path)
    return Budget(path, epsilon=policy.epsilon, delta=policy.delta)


class Gate:
    """Stands between one study and one hospital's patients, from its first question on.

    It counts what it lets through. Nothing sets the count back; a new study has a new gate,
    which the hospital makes and not the coordinator. With a `memory` a restart does not set it
    back either.
    """

    def __init__(self, policy: Policy, memory: StudyMemory | None = None) -> None:
        self.policy = policy
        self._memory = memory
        self._answered = 0 if memory is None else memory.now.answered
        self._lock = RLock()  # two questions at once must not both be the last one

    def admit(self, query: str, *, noised: bool, epsilon: float = 0.0) -> None:
        """Count the question as answered, or raise every rule that it breaks.

        `epsilon` is what all replies of the study that were asked for spend.
        """
        with self._lock:
            faults = self.policy.faults(
                questions=[query], noised=noised, rounds=self._answered + 1, epsilon=epsilon
            )
            if faults:
                raise RefusedError(
                    f"The hospital's policy refuses the question '{query}'.", faults
                )
            # On the disk first, where there is a memory: then the reply may leave.
            if self._memory is not None:
                self._memory.keep(answered=self._answered + 1)
            self._answered += 1
