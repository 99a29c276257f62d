"""How often the intervals of a verdict hold the truth, where that is known: of 6, 10 and 20 recordings.

Recordings differ by a lognormal factor in what makes both errors (one is harder than another), by another in each error
alone, and in length. The truth is the number over all recordings that there could be.

    python benchmarks/intervals.py
"""

from __future__ import annotations

import numpy as np

from simile.metrics import estimate, mean_lag, sum_products

SIZES, TIMES = (6, 10, 20), 2000
ENDLESS = 200_000  # recordings, of which the truth is computed
HARD, OWN = (0.0, 0.5, 1.0), (0.2, 0.5)  # deviations of the logarithms


def draw(rng: np.random.Generator, n: int, hard: float, own: float) -> tuple[np.ndarray, np.ndarray]:
    """Draw the summed squared errors of a policy and of its rival in n recordings, (n, 1) each."""
    shared = rng.lognormal(0.0, hard, (n, 1)) * rng.integers(300, 3000, (n, 1))
    ours, theirs = (shared * rng.lognormal(0.0, own, (n, 1)) for _ in range(2))
    return 0.5 * ours, theirs


def ratio(above: np.ndarray, below: np.ndarray) -> float:
    """Return the ratio of two root mean squared errors."""
    return float(np.sqrt(above.sum() / below.sum()))


def cover_ratios(rng: np.random.Generator, hard: float, own: float) -> list[float]:
    """Return how often the interval of a ratio of errors holds the truth, for each number of recordings."""
    truth = ratio(*draw(rng, ENDLESS, hard, own))
    return [
        np.mean([estimate(ratio, *draw(rng, n, hard, own), positive=True).holds(truth) for _ in range(TIMES)])
        for n in SIZES
    ]


def cover_lags(rng: np.random.Generator, times: int = 300) -> list[float]:
    """Return the same for a lag: five frames on the average, with a deviation of two from recording to recording."""
    found = []
    for n in SIZES:
        held = 0
        for _ in range(times):
            products = []
            for late in rng.normal(5.0, 2.0, n).round().astype(int):
                walk = np.convolve(rng.normal(size=700), np.hanning(40), "same")[:, np.newaxis]
                products.append(sum_products(walk[50 - late : 650 - late], walk[50:650], 1.0))
            held += estimate(mean_lag, np.array(products)).holds(5.0)
        found.append(held / times)
    return found


def main() -> None:
    """Print the shares."""
    rng = np.random.default_rng(36)
    print("Share of the 95 % intervals that hold the truth, by the number of recordings")
    print(f"{'':62}" + "".join(f"{n:>8}" for n in SIZES))
    for hard in HARD:
        for own in OWN:
            spread = f"recordings spread by {hard:g}, each error by {own:g}"
            shares = cover_ratios(rng, hard, own)
            print(f"{f'ratio of errors, {spread}':62}" + "".join(f"{share:>8.3f}" for share in shares), flush=True)
    print(f"{'lag, 5 frames, by 2':62}" + "".join(f"{share:>8.3f}" for share in cover_lags(rng)))


if __name__ == "__main__":
    main()
