"""What does a study release under noise? How much of it, how often, and over whom."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from fedcox.errors import InputError
from fedcox.survival.bounds import MOST_ROUNDS, between

#: A center's own noise has a standard deviation between 2²⁰ and 2²¹ units of the grid. So
#: rounding a patient's share to the grid costs next to no extra noise, and discrete noise is
#: as good as continuous noise.
_UNITS = 20
#: Shares of a study add up to one, up to this.
SHARES_ROUNDING = 1e-9
_MOST_CENTERS = 10**6
#: The grid of noised sums has units between 2⁻⁵⁰⁰ and 2⁵⁰⁰.
_FARTHEST_BITS = 500


@dataclass(frozen=True)
class GaussianRelease:
    """Sums that leave with Gaussian noise, all of one kind, in one study.

    One patient moves a sum by at most `sensitivity`, in Euclidean length; the noise in every
    number has `noise_multiplier` times that as its standard deviation. Each of `releases` sums
    is over patients who were drawn in secret, everybody by the same chance `sampling_rate`.

    `fewest_centers` is for sums under masks: the fewest centers that a sum can have. Each of
    them then adds a part of the noise, and it is enough whoever answers. None: every center's
    reply is seen, and has all of the noise.

    A study that releases sums of several kinds, all of them over everybody, is one release as
    far as privacy goes, of noise multiplier `whole`: with z of each kind, 1 / whole² is the sum
    of releases / z². None stands for a study of one kind.
    """

    noise_multiplier: float
    sensitivity: float
    sampling_rate: float = 1.0
    releases: int = 1
    fewest_centers: int | None = None
    whole: float | None = None

    def __post_init__(self) -> None:
        faults = [
            f"The {what} is {value:g}; it must be a positive number."
            for what, value in (
                ("noise multiplier", self.noise_multiplier),
                ("sensitivity", self.sensitivity),
            )
            if not (math.isfinite(value) and value > 0)
        ]
        if not 0 < self.sampling_rate <= 1:
            faults.append(
                f"The sampling rate is {self.sampling_rate:g}; it must be above 0 and at most "
                "1, which stands for everybody."
            )
        if self.releases < 1:
            faults.append(f"There are {self.releases} releases; there must be at least one.")
        if self.fewest_centers is not None and self.fewest_centers < 1:
            faults.append(
                f"The fewest centers of a sum are {self.fewest_centers}; there must be one."
            )
        if self.whole is not None:
            faults += self._of_whole(self.whole)
        if faults:
            raise InputError("Sums cannot be released under this noise.", faults)

    def faults(self, columns: int | None) -> Iterator[str]:
        """The units of its grid are numbers that a computer has."""
        yield from between("releases", self.releases, 1, MOST_ROUNDS)
        yield from between("fewest_centers", self.fewest_centers, 1, _MOST_CENTERS)
        unit = self.own_multiplier * self.sensitivity
        if not 2.0**-_FARTHEST_BITS <= unit <= 2.0**_FARTHEST_BITS:
            yield "noise multiplier and sensitivity are too small or too large to compute with"

    def _of_whole(self, whole: float) -> list[str]:
        if not (math.isfinite(whole) and whole > 0):
            return [f"The noise multiplier of the study is {whole:g}; it must be positive."]
        if self.sampling_rate != 1.0:
            return ["Sums of several kinds are over everybody, not over a sample."]
        if self.share > 1.0 + SHARES_ROUNDING:
            return ["These sums have less noise than all of the study together stands for."]
        return []

    @property
    def account(self) -> GaussianRelease | tuple[float, int | None]:
        """Kinds of sums with the same one are accounted for together, as one release."""
        return self if self.whole is None else (self.whole, self.fewest_centers)

    @property
    def share(self) -> float:
        """The part of what the study spends that sums of this kind do; all for one kind."""
        if self.whole is None:
            return 1.0
        return self.releases * (self.whole / self.noise_multiplier) ** 2

    @property
    def parts(self) -> int:
        """Into how many parts the noise of a sum under masks is divided."""
        return 1 if self.fewest_centers is None else self.fewest_centers

    @property
    def own_multiplier(self) -> float:
        """The noise multiplier of one center's part alone.

        It is what protects a center's patients from all other centers together, who know the
        noise they added themselves.
        """
        return self.noise_multiplier / math.sqrt(self.parts)

    @property
    def bits(self) -> int:
        """Binary places of the grid on which shares of patients, sums and noise lie."""
        return _UNITS - math.floor(math.log2(self.own_multiplier * self.sensitivity))

    @property
    def resolution(self) -> float:
        """The unit of that grid, a power of two."""
        return math.ldexp(1.0, -self.bits)
