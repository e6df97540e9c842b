"""What leaves under noise? Sums with whole numbers from the discrete Gaussian on them.

Drawing them is exact: each value has its probability, exp(−y²/2σ²) over the sum of all, and
not that of a nearby floating-point number, whose last digits give the secret away (Mironov
2012). The method is Canonne, Kamath and Steinke's (2020, algorithms 1 to 3): discrete Laplace
candidates, accepted by coins with chances exp(−x). A coin compares 53 random bits with a
double; when these cannot tell, further bits and digits decide.

How long a draw takes depends on the values drawn. Who can measure that to the microsecond is
outside what this protects from.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Protocol

import numpy as np

from fedcox.errors import InputError
from fedcox.survival.bounds import MOST_ROUNDS, between
from fedcox.survival.cohort import BoolArray, FloatArray, IntArray

#: A center's own noise has a standard deviation between 2²⁰ and 2²¹ units of the grid. So
#: rounding a patient's share to the grid costs next to no extra noise, and discrete noise is
#: as good as continuous noise.
_UNITS = 20
#: Shares of a study add up to one, up to this.
SHARES_ROUNDING = 1e-9
_MOST_CENTERS = 10**6
_LARGEST_WHOLE = 1e100
#: The grid of noised sums has units between 2⁻⁵⁰⁰ and 2⁵⁰⁰.
_FARTHEST_BITS = 500
#: Sums on the grid are doubles, exact up to 2⁵³ units.
_LARGEST = 2.0**52
#: Up to this variance candidates, which stay below a hundred σ, are exact as doubles.
_LARGEST_VARIANCE = 2**80
#: How far exp(−x) in doubles may be off, in parts of itself and for x = 1. It is nearer to
#: 2⁻⁵⁰; coins closer than this are decided in digits, one in a thousand billions.
_DOUBT = 2.0**-40


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
            f"The {what} is {value:g}; it must be positive."
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
        if self.whole is not None and not faults:
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
        if not 0 < whole < _LARGEST_WHOLE:
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


class Randomness(Protocol):
    """Where random bits come from."""

    def bits(self, count: int) -> IntArray:
        """So many independent numbers of 63 random bits each."""
        ...


class SystemRandomness:
    """The operating system's cryptographic source: the one for patients."""

    def bits(self, count: int) -> IntArray:
        drawn = np.frombuffer(secrets.token_bytes(8 * count), dtype="<i8")
        return np.asarray(drawn & np.int64(2**63 - 1), dtype=np.int64)


class SeededRandomnessForSimulations:
    """A seeded source, so that a simulation can be repeated; it protects nobody."""

    def __init__(self, *seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def bits(self, count: int) -> IntArray:
        return self._rng.integers(0, 2**63, size=count, dtype=np.int64)


def chosen_by_chance(count: int, chance: float, randomness: Randomness) -> BoolArray:
    """Who of `count` is drawn, each by `chance` and never by more."""
    if chance >= 1.0:
        return np.ones(count, dtype=np.bool_)
    return np.asarray(randomness.bits(count) < np.int64(math.floor(math.ldexp(chance, 63))))


def discrete_gaussian(variance: int, size: int, randomness: Randomness) -> IntArray:
    """`size` draws of the discrete Gaussian N_ℤ(0, σ²), with σ² = `variance`."""
    if not 1 <= variance <= _LARGEST_VARIANCE:
        raise ValueError(f"The variance is {variance}; it must be from 1 to 2^80.")
    scale = math.isqrt(variance) + 1

    def exact(candidate: int) -> tuple[int, int]:
        return (candidate * scale - variance) ** 2, 2 * variance * scale**2

    def some(wanted: int) -> IntArray:
        drawn = _discrete_laplace(scale, wanted, randomness)
        reach = np.abs(drawn)
        rates = (reach - variance / scale) ** 2 / (2.0 * variance)
        return drawn[_coins(rates, lambda place: exact(int(reach[place])), randomness)]

    return _filled(some, size, chance=0.5)


def noised(
    vector: FloatArray, release: GaussianRelease, randomness: Randomness, *, masked: bool
) -> FloatArray:
    """A center's sum with its noise, both on the release's grid.

    `vector` is a sum of patients' shares that were rounded to the grid one by one. With
    `masked` the center adds its part of the noise, else all of it.
    """
    units = np.asarray(vector, dtype=np.float64) / release.resolution
    if not np.isfinite(units).all() or float(np.abs(units).max(initial=0.0)) > _LARGEST:
        raise InputError(
            "A sum is too large for the grid of its noise.",
            ["Clip patients' shares to the release's sensitivity before they are summed."],
        )
    if (units != np.rint(units)).any():
        raise InputError(
            "A sum does not lie on the grid of its noise.",
            ["Round every patient's share to the release's resolution before it is summed."],
        )
    variance = noise_variance(release, units.size, masked=masked)
    noise = discrete_gaussian(variance, units.size, randomness)
    return np.asarray((units + noise) * release.resolution)


def noise_variance(release: GaussianRelease, numbers: int, *, masked: bool) -> int:
    """Variance of one center's noise in a reply of so many numbers, in squared grid units.

    Rounding a share to the grid moves each number by up to half a unit, and so makes the share
    longer by up to √numbers / 2 units.
    """
    length = release.sensitivity / release.resolution + math.sqrt(numbers) / 2.0
    whole = (release.noise_multiplier * length) ** 2 * (1.0 + _DOUBT)
    return math.ceil(whole / release.parts) if masked else math.ceil(whole)


def excess_of_parts(release: GaussianRelease, numbers: int, centers: int) -> float:
    """By how much noise in parts may fall short of noise at once: next to nothing.

    A sum of discrete Gaussians is no discrete Gaussian. Where one patient moves a reply of d
    numbers by ε standard deviations of the noise, the parts of n centers, each of variance s²,
    protect as if by (Kairouz, Liu and Steinke 2021, theorem 1)

        min(√(ε² + τ d / 2), ε + τ √d),   τ = 10 Σ_{k=1}^{n−1} exp(−2π² s² k / (k + 1)).

    Given is the difference to ε; at s ≥ 2²⁰ it is zero in double precision.
    """
    variance = noise_variance(release, numbers, masked=True)
    tau = 10.0 * sum(
        math.exp(-2.0 * math.pi**2 * variance * k / (k + 1)) for k in range(1, centers)
    )
    moved = 1.0 / release.noise_multiplier
    known = math.sqrt(moved**2 + tau * numbers / 2.0), moved + tau * math.sqrt(numbers)
    return min(known) - moved


def _discrete_laplace(scale: int, wanted: int, randomness: Randomness) -> IntArray:
    """About `wanted` draws with chances in proportion to exp(−|y| / scale)."""

    def remainders(count: int) -> IntArray:
        """Below `scale`, with chances in proportion to exp(−u / scale)."""
        drawn = _below(scale, count, randomness)
        rates = drawn / scale
        return drawn[_coins(rates, lambda place: (int(drawn[place]), scale), randomness)]

    remainder = _filled(remainders, wanted, chance=0.6)
    drawn = remainder + scale * _run_lengths(wanted, randomness)
    negative = (randomness.bits(wanted) & 1).astype(np.bool_)
    kept = ~(negative & (drawn == 0))  # else zero would count twice
    return np.asarray(np.where(negative, -drawn, drawn)[kept])


def _run_lengths(count: int, randomness: Randomness) -> IntArray:
    """How many coins of chance 1/e fall well before the first that does not."""
    lengths = np.zeros(count, dtype=np.int64)
    running = np.arange(count)
    while running.size:
        running = running[_coins(np.ones(running.size), lambda place: (1, 1), randomness)]
        lengths[running] += 1
    return lengths


def _below(limit: int, count: int, randomness: Randomness) -> IntArray:
    """`count` whole numbers from 0 to `limit` − 1, each as likely."""
    last = (2**63 // limit) * limit - 1  # beyond, the small ones would be likelier

    def some(wanted: int) -> IntArray:
        drawn = randomness.bits(wanted)
        return drawn[drawn <= last] % limit

    return _filled(some, count, chance=1.0)


def _filled(some: Callable[[int], IntArray], size: int, *, chance: float) -> IntArray:
    """`size` accepted draws; `some(n)` gives those accepted of n candidates."""
    parts: list[IntArray] = []
    missing = size
    while missing > 0:
        part = some(int(missing / chance * 1.1) + 8)[:missing]
        parts.append(part)
        missing -= part.size
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def _coins(
    rates: FloatArray, exact: Callable[[int], tuple[int, int]], randomness: Randomness
) -> BoolArray:
    """Coins that fall well by the chances exp(−rate).

    `exact` gives the rate at a place as a ratio of whole numbers, for coins too close to tell.
    """
    drawn = randomness.bits(rates.size)
    low = (drawn >> 10) * 2.0**-53
    chances = np.exp(-rates)
    doubt = _DOUBT * (1.0 + rates) * chances
    well = low + 2.0**-53 <= chances - doubt
    for place in np.flatnonzero(~well & (low <= chances + doubt)).tolist():
        well[place] = _coin_by_digits(int(drawn[place]), *exact(place), randomness)
    return np.asarray(well)


def _coin_by_digits(
    drawn: int, numerator: int, denominator: int, randomness: Randomness
) -> bool:
    """Whether 0.b₁b₂b₃… < exp(−numerator / denominator); `drawn` are the first 63 bits."""
    length = 63
    while True:
        with localcontext() as context:
            context.prec = length + 30  # more than all products below have digits
            one = Decimal(2) ** length
            low, high = _exp_bounds(numerator, denominator, digits=length // 3)
            if Decimal(drawn + 1) <= low * one:
                return True
            if Decimal(drawn) >= high * one:
                return False
        drawn = (drawn << 63) | int(randomness.bits(1)[0])
        length += 63


def _exp_bounds(numerator: int, denominator: int, *, digits: int) -> tuple[Decimal, Decimal]:
    """Numbers below and above exp(−numerator / denominator), which agree in so many digits."""
    with localcontext() as context:
        # The ratio is a few thousand at most, and ten digits more than its rounding can move.
        context.prec = digits + 20
        chance = (-Decimal(numerator) / Decimal(denominator)).exp()
        margin = chance.scaleb(-digits - 5)
        return chance - margin, chance + margin
