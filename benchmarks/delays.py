"""How well delays are told: signals whose delay is known, with noise on both, and real recordings.

Known: 100 recordings each, of six sequences of 400 frames, with a delay of -8 to 20 frames and white noise on cause and
effect, as a share of the deviation of each; in decibels. Told are the root mean square error in frames, how many are
within one frame, how many hold the delay in their interval of 90 %, and how many are clear at all. Behind a filter the
delay is its own and the filter's lag for slow motion.

Real recordings, where they are at hand (`--data`, or the variable SIMILE_DATA): how late the expert is behind its
contexts, and how late a robot's joints are behind what they are told.

    python benchmarks/delays.py
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from accuracy import COLUMNS, find_data

import simile
from simile._common.typing import FloatArray
from simile.data.delays import Delay, estimate_delay, summarize_delays, tell_delays

SEED, TRIES, SEQUENCES, FRAMES, MARGIN = 21_000, 100, 6, 400, 200  # seeds that no choice was made by
DECIBELS = (60.0, 30.0, 20.0, 10.0)
FILTER = 5.0  # frames
Pair = tuple[FloatArray, FloatArray]
LIMBS = ("LeftHand", "RightHand", "Left", "Right")


def wander(band: float) -> Callable[[np.random.Generator, float], Pair]:
    """Return what makes random motion up to a frequency (cycles per frame), and the same later."""

    def make(rng: np.random.Generator, delay: float) -> Pair:
        n = FRAMES + 2 * MARGIN
        frequency = np.fft.rfftfreq(n)
        spectrum = np.fft.rfft(rng.normal(size=n)) / np.sqrt(1.0 + (frequency / band) ** 6)
        later = spectrum * np.exp(-2j * np.pi * frequency * delay)
        one, other = (np.fft.irfft(s, n)[MARGIN : MARGIN + FRAMES] for s in (spectrum, later))
        return one, other

    return make


def step(rng: np.random.Generator, delay: float) -> Pair:
    """Make levels that are held for 40 frames or so; the delay is whole frames."""
    n = FRAMES + 2 * MARGIN
    level = np.cumsum(rng.normal(size=n) * (rng.random(n) < 1.0 / 40.0))
    begin = MARGIN - round(delay)
    return level[MARGIN : MARGIN + FRAMES], level[begin : begin + FRAMES]


def sway(rng: np.random.Generator, delay: float) -> Pair:
    """Make a sinusoid of 60 frames."""
    phase = 2.0 * np.pi * (np.arange(FRAMES) / 60.0 + rng.random())
    return np.sin(phase), np.sin(phase - 2.0 * np.pi * delay / 60.0)


def filtered(rng: np.random.Generator, delay: float) -> Pair:
    """Make slow random motion, and what a filter of first order leaves of it, so that both are late by `delay`."""
    cause, effect = wander(0.01)(rng, delay - FILTER)
    out = effect.copy()
    for t in range(1, FRAMES):
        out[t] = out[t - 1] + (effect[t] - out[t - 1]) / (1.0 + FILTER)
    return cause, out


def unrelated(rng: np.random.Generator, delay: float) -> Pair:
    """Make two signals that have nothing to do with each other."""
    return wander(0.05)(rng, delay)[0], wander(0.05)(rng, delay)[0]


KINDS: dict[str, Callable[[np.random.Generator, float], Pair]] = {
    "motion up to 0.2 of a cycle per frame": wander(0.2),
    "motion up to 0.05": wander(0.05),
    "motion up to 0.02": wander(0.02),
    "motion up to 0.01": wander(0.01),
    "steps": step,
    "sinusoid of 60 frames": sway,
    "motion up to 0.01, behind a filter": filtered,
    "nothing to do with each other": unrelated,
}


def measure(make: Callable[[np.random.Generator, float], Pair], decibels: float) -> list[tuple[float, Delay]]:
    """Return the delays of many recordings, as they are and as they are told."""
    found, noise = [], 10.0 ** (-decibels / 20.0)
    for seed in range(SEED, SEED + TRIES):
        rng = np.random.default_rng(seed)
        delay = rng.uniform(-8.0, 20.0)
        delay = float(round(delay)) if make is step else delay
        pairs = [make(rng, delay) for _ in range(SEQUENCES)]
        cause, effect = (
            [x + noise * x.std() * rng.normal(size=FRAMES) for x in signals] for signals in zip(*pairs, strict=True)
        )
        found.append((delay, estimate_delay(cause, effect)))
    return found


def known() -> Iterator[str]:
    """Yield a table of what is told of known delays."""
    yield f"{'':40} {'noise':>6} {'RMSE':>6} {'within 1':>9} {'in interval':>12} {'clear':>6}"
    for name, make in KINDS.items():
        for decibels in DECIBELS:
            found = measure(make, decibels)
            off = np.array([told.frames - delay for delay, told in found if told.clear])
            held = sum(told.low <= delay <= told.high for delay, told in found)
            cells = f"{'-':>6} {'-':>9} {'-':>12}"
            if make is not unrelated:
                cells = f"{np.sqrt(np.mean(off**2)):6.2f} {np.sum(np.abs(off) < 1.0):9d} {held:12d}"
            yield f"{name:40} {decibels:3.0f} dB {cells} {len(off):6d}"


def experts(folder: Path) -> Iterator[str]:
    """Yield how late experts are behind their contexts."""
    for name, (actions, contexts) in COLUMNS.items():
        how = {"sequence": "sequence", "time": "t", "actions": actions, "contexts": contexts, "quiet": True}
        found = summarize_delays(simile.read(folder / name / f"{name}.csv", **how))
        yield f"{name}: {sum(d.clear for d in found)} of {len(found)} are clear"
        yield from (f"  {line}" for line in tell_delays(found))


def robot(folder: Path) -> Iterator[str]:
    """Yield how late the joints of a robot are behind their targets, limb by limb."""
    demos = simile.read(folder / "teleoperation", quiet=True)
    limbs: dict[str, list[Delay]] = {limb: [] for limb in LIMBS}
    for j, name in enumerate(demos.action_names):
        told = estimate_delay([a[:, j] for a in demos.actions], [x[:, j] for x in demos.contexts], rate=demos.rate)
        limbs[next(limb for limb in LIMBS if f".k{limb}" in name)].append(told)
    yield "teleoperation: how late joints are behind their targets, in ms: median, lowest and highest, widest interval"
    for limb, delays in limbs.items():
        each = 1e3 * np.array([(d.seconds, (d.high - d.low) / (d.rate or 1.0)) for d in delays if d.clear])
        span = f"{np.median(each[:, 0]):4.0f}, {each[:, 0].min():.0f} to {each[:, 0].max():.0f}, {each[:, 1].max():.0f}"
        yield f"  {limb if 'Hand' in limb else limb + 'Arm':10} {len(each)} of {len(delays)} joints  {span}"


def main() -> None:
    """Print everything."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with the real data sets")
    folder = find_data(parser.parse_args().data)
    for line in known():
        print(line, flush=True)
    if folder is not None:
        print("", *experts(folder), *robot(folder), sep="\n")


if __name__ == "__main__":
    main()
