"""Arithmetic on noisy sums, from which variances, regressions and the like follow (see `moments`).

n is a count, x and s are Σ (X − c), xx and q Σ (X − c)², xy Σ (X − c)(Y − d), t and f are sums of
third and fourth powers. ``lost`` is subtracted from n in a divisor, ``cx`` and ``cy`` are c and d.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

__all__ = ["MACROS", "PARAMETERS"]

MACROS: Final = (
    "__variance(n, x, xx, lost) AS CASE WHEN n > lost AND xx - x * x / n > 0 "
    "THEN (xx - x * x / n) / (n - lost) WHEN n > lost AND xx - x * x / n <= 0 THEN 0e0 END",
    "__deviation(n, x, xx, lost) AS sqrt(__variance(n, x, xx, lost))",
    "__covariance(n, x, y, xy, lost) AS CASE WHEN n > lost THEN (xy - x * y / n) / (n - lost) END",
    "__within(value, low) AS CASE WHEN value > 1 THEN 1e0 WHEN value < low THEN low ELSE value END",
    "__correlation(n, x, y, xx, xy, yy) AS __within(__covariance(n, x, y, xy, 0) "
    "/ nullif(__deviation(n, x, xx, 0) * __deviation(n, y, yy, 0), 0), -1e0)",
    "__slope(n, x, y, xx, xy) AS __covariance(n, x, y, xy, 0) / nullif(__variance(n, x, xx, 0), 0)",
    "__mean(n, x, cx) AS CASE WHEN n > 0 THEN cx + x / n END",
    "__intercept(n, x, y, xx, xy, cx, cy) AS "
    "__mean(n, y, cy) - __slope(n, x, y, xx, xy) * __mean(n, x, cx)",
    "__determination(n, x, y, xx, xy, yy) AS CASE WHEN __variance(n, x, xx, 0) > 0 "
    "THEN CASE WHEN __variance(n, y, yy, 0) = 0 THEN 1e0 "
    "ELSE __correlation(n, x, y, xx, xy, yy) ** 2 END END",
    "__product(n, x, y, xy) AS n * __covariance(n, x, y, xy, 0)",
    "__skewness(n, s, q, t) AS CASE WHEN n > 2 THEN sqrt(n * (n - 1e0)) / (n - 2) "
    "* (t - 3 * q * s / n + 2 * s ** 3 / n / n) / n "
    "/ nullif(__deviation(n, s, q, 0) ** 3, 0) END",
    "__kurtosis(n, s, q, t, f) AS CASE WHEN n > 3 THEN (n - 1e0) / (n - 2) / (n - 3) "
    "* ((n + 1) * (f - 4 * t * s / n + 6 * q * s * s / n / n - 3 * s ** 4 / n / n / n) / n "
    "/ nullif(__variance(n, s, q, 0) ** 2, 0) - 3 * (n - 1)) END",
)
"""Each as in CREATE MACRO. Skewness and kurtosis are DuckDB's, corrected for a sample's size."""

PARAMETERS: Final[Mapping[str, list[str]]] = {
    name: written.split(", ")
    for name, written in (macro.partition(")")[0].split("(") for macro in MACROS)
}
"""The names of each macro's parameters."""
