"""One code for a study between these hospitals, which they can compare over the telephone.

It stands for the study file, who takes part, and the keys by which they know each other. Where
two hospitals see the same code they were shown the same study and the same keys.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence

from fedcox.errors import InputError
from fedcox.study.study import Study

_CODE = re.compile(r"[0-9a-f]{4}(-[0-9a-f]{4}){7}")


def study_code(study: Study, centers: Sequence[str], identities: Mapping[str, str]) -> str:
    """128 bits in eight groups of four digits."""
    told = json.dumps([study.to_toml(), sorted(centers), sorted(identities.items())])
    digits = hashlib.sha256(b"fedcox study code\n" + told.encode()).hexdigest()[:32]
    return "-".join(digits[start : start + 4] for start in range(0, 32, 4))


def study_digest(study: Study) -> str:
    """The study file alone, whoever takes part: what a hospital remembers it by."""
    return hashlib.sha256(study.to_toml().encode()).hexdigest()


def schema_digest(study: Study) -> bytes:
    """How this version of fedcox reads the study's columns: names, order, ranges, levels."""
    return hashlib.sha256(repr(study.schema).encode()).digest()


def read_code(text: str) -> str:
    """A code as somebody typed it."""
    code = text.strip().lower()
    if not _CODE.fullmatch(code):
        raise InputError(
            f"{text!r} is not the code of a study.",
            ["It has eight groups of four digits, 0 to 9 and a to f, joined by dashes."],
        )
    return code
