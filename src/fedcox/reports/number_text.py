"""How a number reads: p-values, ratios, counts, bytes, times."""

from __future__ import annotations

import math

DASH = "–"


def finite(value: float | None) -> float | None:
    """The value, or None where there is no number to show or to draw."""
    return None if value is None or not math.isfinite(value) else float(value)


def count_text(value: float) -> str:
    """A count with thousands separated; halves are kept, since a patient may count half."""
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"


def noun_text(count: int, noun: str) -> str:
    """A count and its noun: "1 center", "5 centers"."""
    return f"{count_text(count)} {noun}" if count == 1 else f"{count_text(count)} {noun}s"


def p_text(p: float | None) -> str:
    """A p-value as journals print it; never "0.000"."""
    value = finite(p)
    if value is None:
        return DASH
    if value < 0.001:
        return "<0.001"
    if value > 0.99:
        return ">0.99"
    return f"{value:.3f}" if value < 0.1 else f"{value:.2f}"


def ratio_decimals(low: float | None, high: float | None) -> int:
    """Decimals that tell the two ends of an interval apart: two, and more for narrow ones."""
    low, high = finite(low), finite(high)
    if low is None or high is None or high <= low:
        return 2
    return min(6, max(2, 1 + math.ceil(-math.log10(high - low))))


def ratio_text(ratio: float | None, decimals: int = 2) -> str:
    """A ratio at the given decimals; beyond any clinical meaning it says only how far."""
    if ratio is not None and ratio == math.inf:
        return ">10,000"
    value = finite(ratio)
    if value is None:
        return DASH
    if value > 10_000:
        return ">10,000"
    if value < 0.0001:
        return "<0.0001"
    if value < 0.1:
        decimals = max(decimals, 1 - math.floor(math.log10(value)))
    return f"{value:,.{0 if value >= 100 else 1 if value >= 10 else decimals}f}"


def signed_text(value: float | None, decimals: int = 3) -> str:
    """A difference with its sign, and none where it rounds to zero."""
    number = finite(value)
    if number is None:
        return DASH
    text = f"{abs(number):.{decimals}f}"
    if float(text) == 0:
        return text
    return f"+{text}" if number > 0 else f"−{text}"


def bytes_text(size: float) -> str:
    """A size in bytes, kB, MB or GB, in steps of a thousand."""
    if size < 1000:
        return f"{size:,.0f} bytes"
    for unit in ("kB", "MB"):
        size /= 1000
        if size < 999.5:
            return f"{size:.0f} {unit}" if size >= 99.95 else f"{size:.1f} {unit}"
    return f"{size / 1000:,.1f} GB"


def short_text(value: float | None, digits: int = 4) -> str:
    """A measured value at a few digits: an age, a time, a mean."""
    number = finite(value)
    if number is None:
        return DASH
    size = abs(number)
    if size != 0 and not 1e-4 <= size < 1e7:
        return f"{number:.3g}"
    magnitude = math.floor(math.log10(size)) if size else 0
    text = f"{number:,.{max(0, digits - 1 - magnitude)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def percent_text(share: float | None) -> str:
    """A share as a whole percentage, one decimal below ten per cent."""
    value = finite(share)
    if value is None:
        return DASH
    percent = 100 * value
    return f"{percent:.1f} %" if 0 < percent < 9.95 else f"{percent:.0f} %"


def power_text(power: int) -> str:
    """A power of ten with a raised exponent."""
    return "10" + str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))


def bound_text(value: float, digits: int = 3) -> str:
    """An upper bound at a few digits, rounded up so that it still holds."""
    if value <= 0:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
    # What is a bound but for the last bits of a double is not to be raised.
    return short_text(math.ceil(value / unit * (1 - 1e-12)) * unit, digits)


def one_in_text(chance: float) -> str:
    """A small chance as people say it: "1 in 100,000", never smaller than it is."""
    if chance <= 0:
        return "nothing"
    if chance > 0.1:
        return bound_text(chance)
    many = 1 / chance * (1 + 1e-12)
    unit = 10.0 ** max(0, math.floor(math.log10(many)) - 2)
    return f"1 in {math.floor(many / unit) * unit:,.0f}"
