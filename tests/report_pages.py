"""Reports for tests of the page: made up, but of the shape that real ones have (frontend/src/payload.ts)."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import numpy as np

from simile._common.pages import asset, fill, harmless, pack

RATE = 25.0
MOODS = ("good", "good", "fair", "poor", "plain", "unknown")
QUESTIONS = (
    "Is it accurate?",
    "Is it smooth?",
    "Is it on time?",
    "Does it look like a person?",
    "Can I trust it?",
    "How smooth should I choose?",
)
SENTENCES = (
    "Yes: typically 0.31 off in pan on 8 recordings it had not seen: 72 % closer than holding the last action.",
    "Yes: about as smooth as the expert (1.1 times smoother, which may be chance).",
    "Not sure: 0.1 s late.",
    "No: in pan it turns 22 times a minute, the expert 16.",
    "Its smoother settles by itself; but the held-out error is 2 times what the training expected.",
    "Half as rough has 1.06 times the error; twice as rough saves 2% of the error.",
)


def walk(frames: int, seed: int, slowness: int = 40) -> np.ndarray:
    """A smooth random walk."""
    rng = np.random.default_rng(seed)
    kernel = np.hanning(slowness)
    steps = np.convolve(rng.normal(size=frames + slowness - 1), kernel / kernel.sum(), mode="valid")
    steps -= steps.mean()
    return np.cumsum(steps) / 4


def curves_of(frames: int, actions: int, seed: int) -> np.ndarray:
    """Expert, policy and a rival, (frames, 3, actions): the policy is a little late, the rival is rough."""
    rng = np.random.default_rng(seed)
    expert = np.stack([walk(frames, 100 * seed + j) for j in range(actions)], axis=1)
    policy = np.roll(expert, 4, axis=0)
    policy[:4] = expert[0]
    policy[:8] = expert[:8]
    policy[8:] += 0.25 * np.stack([walk(frames - 8, 7 + 100 * seed + j, 120) for j in range(actions)], axis=1)
    rival = expert + rng.normal(scale=0.12, size=expert.shape)
    return np.stack([expert, policy, rival], axis=1)


def packed(values: np.ndarray, holds: list[list[int]] | None = None) -> dict[str, Any]:
    """Trajectories (frames, curves, actions) as the page reads them, and where each rests."""
    flat = values.reshape(len(values), -1)
    low, high = np.nanmin(flat, axis=0), np.nanmax(flat, axis=0)
    return {**pack(flat, np.maximum(high - low, 1e-9) / 60_000, (low + high) / 2), "holds": holds or []}


def contenders() -> list[dict[str, Any]]:
    """Eight of them, with six points each."""
    rng = np.random.default_rng(5)
    kinds = ("ours", "path", "reduction", "reduction", "rival", "rival", "rival", "baseline")
    names = (
        "simile",
        "other smoothness",
        "DAgger",
        "SEARN",
        "Kalman smoother",
        "Savitzky-Golay",
        "LSTM",
        "hold the last",
    )
    made = []
    for i, (kind, name) in enumerate(zip(kinds, names, strict=True)):
        roughness = np.geomspace(0.25, 6.0, 6) * rng.uniform(0.8, 1.25)
        error = 0.24 + 0.05 * i + 0.06 / np.sqrt(roughness) + 0.008 * roughness + rng.normal(scale=0.004, size=6)
        points = [
            {"roughness": float(r), "error": float(e), "label": f"smoothness {s:.3g}"}
            for r, e, s in zip(roughness, error, np.geomspace(100, 1, 6), strict=True)
        ]
        made.append({"name": name, "kind": kind, "points": points[2:3] if kind == "baseline" else points})
    return made


def rounds() -> list[dict[str, Any]]:
    """Eleven rounds that get better, then level out."""
    made = []
    for n in range(11):
        error = 0.3 + 0.5 * 0.6**n
        made.append(
            {
                "number": n,
                "beta": None if n == 0 else 0.5,
                "sigma": 0.8**n,
                "error": error,
                "roughness": 0.9 + 0.5 * 0.5**n,
                "radius": 0.97,
                "validation_error": error * 1.08 + 0.01 * max(0, n - 7),
                "validation_roughness": 0.95 + 0.5 * 0.5**n,
                "diverged": n == 2,
            }
        )
    return made


CURVES = ("expert", "simile", "Savitzky-Golay")


def table(frontier: list[dict[str, Any]]) -> dict[str, Any]:
    """Held-out results of every contender."""
    best = [min(one["points"], key=lambda point: point["error"]) for one in frontier]
    rows = [
        [one["name"], point["error"], point["roughness"], i / 3]
        for i, (one, point) in enumerate(zip(frontier, best, strict=True))
    ]
    return {"columns": ["Policy", "Error", "Roughness", "Late by (frames)"], "rows": rows}


def lag_of(actions: int) -> dict[str, Any]:
    frames = np.arange(-30, 31)
    correlation = [np.exp(-(((frames - 3.2 - j) / 18) ** 2)).tolist() for j in range(actions)]
    return {"frames": frames.tolist(), "correlation": correlation, "best": [3.2 + j for j in range(actions)]}


def spectrum_of(actions: int) -> dict[str, Any]:
    hertz = np.geomspace(0.02, 12.5, 200)
    rng = np.random.default_rng(1)
    expert = [(1 / (0.01 + hertz**3) * rng.lognormal(sigma=0.2, size=200)).tolist() for _ in range(actions)]
    policy = [(1 / (0.01 + hertz**3.3) * rng.lognormal(sigma=0.2, size=200)).tolist() for _ in range(actions)]
    return {"hertz": hertz.tolist(), "expert": expert, "policy": policy, "unit": "Hz"}


def motion_of(actions: tuple[str, ...]) -> dict[str, Any]:
    rows = [[who, a, 16.0 + i, 0.4] for a in actions for i, who in enumerate(("policy", "expert"))]
    return {"columns": ["who", "action", "reversals a minute", "rest"], "rows": rows}


def report_of(lengths: tuple[int, ...] = (3000,) * 4, actions: tuple[str, ...] = ("pan", "tilt")) -> dict[str, Any]:
    """Content of a report without its series; the sequences name them series-0, series-1 and so on."""
    rng = np.random.default_rng(0)
    errors = 0.31 * rng.lognormal(sigma=0.3, size=len(lengths))
    sequences = [
        {
            "name": f"game {i + 1}",
            "frames": length,
            "begins": 8,
            "step": 1,
            "series": f"series-{i}",
            "error": float(errors[i]),
            "rmse": [float(errors[i] * (j + 1)) for j in range(len(actions))],
            "roughness": float(rng.uniform(0.8, 1.1)),
            "reversals": [[20.0 + i, 16.0]] * len(actions),
            "rest": [[0.4, 0.44 + j / 10] for j in range(len(actions))],
            "lag": float(rng.uniform(2, 4)),
        }
        for i, length in enumerate(lengths)
    ]
    moments = [
        {
            "sequence": i % max(1, len(lengths)),
            "begin": 500 + 150 * i,
            "end": 550 + 150 * i,
            "action": i % len(actions),
            "error": 3 / (i + 1),
        }
        for i in range(8)
    ]
    answers = [
        {"question": question, "answer": answer, "mood": mood}
        for question, answer, mood in zip(QUESTIONS, SENTENCES, MOODS, strict=True)
    ]
    frontier = contenders()
    names = ["ball x", "ball y", "players' centre", "own pan", *(f"player {i}" for i in range(25))]
    weights = rng.dirichlet(np.geomspace(8, 0.05, len(names)))
    repeat = {
        "command": "simile train games.csv --actions pan,tilt --sequence game --rate 25 --seed 0 --out run",
        "python": "import simile\n\ndemos = simile.read('games.csv', actions=['pan', 'tilt'])\nrun = simile.train()",
        "config": "[train]\nalgorithm = 'simile'\nseed = 0\nsmoothness = 'expert'",
    }
    return {
        "title": "Camera games: simile against the operator",
        "subtitle": "games.csv: 24 sequences, 72,000 frames at 25 Hz, 2 actions and 29 contexts",
        "version": "0.4.0",
        "made": "2025-11-15T12:00:00",
        "headline": "Accurate, smooth and on time.",
        "verdict": "It follows the operator closely and as smoothly, about an eighth of a second late.",
        "answers": answers,
        "notes": ["Only four sequences were held out: differences below 10 % may be chance."],
        "rate": RATE,
        "actions": list(actions),
        "curves": list(CURVES),
        "sequences": sequences,
        "moments": moments,
        "rounds": rounds(),
        "chosen": 7,
        "mixture": None,
        "in_turn": False,
        "frontier": frontier,
        "frontier_note": "All points were measured on the same four held-out sequences.",
        "table": table(frontier),
        "lag": lag_of(len(actions)),
        "spectrum": spectrum_of(len(actions)),
        "motion": motion_of(actions),
        "importances": {
            "contexts": [{"name": n, "share": float(w)} for n, w in zip(names, weights, strict=True)],
            "lags": [{"name": f"{i} frames ago", "share": float(0.5**i / 2)} for i in range(10)],
            "note": "Shares of what the trees of the policy split by, summed over frames and over inputs.",
        },
        "diagnosis": {
            "findings": [
                "The errors of neighbouring frames go together: it drifts and comes back.",
                "Nothing else stands out.",
            ],
            "values": [
                {"name": "Autocorrelation", "value": 0.93, "meaning": "How alike errors of neighbouring frames are."}
            ],
        },
        "repeat": repeat,
    }


def write_page(path: Path, report: dict[str, Any], series: list[dict[str, Any]] | None = None) -> Path:
    """Write a report as simile.evaluation.report does."""
    if series is None:
        shapes = [(one["frames"], len(report["actions"])) for one in report["sequences"]]
        series = [packed(curves_of(*shape, seed=i)) for i, shape in enumerate(shapes)]
    scripts = [
        f'<script type="application/json" id="series-{i}">{harmless(json.dumps(one))}</script>'
        for i, one in enumerate(series)
    ]
    page = fill(
        asset("report.html"),
        title=html.escape(report["title"]),
        headline=html.escape(report["headline"]),
        verdict=html.escape(report["verdict"]),
        style=asset("built/report.css"),
        script=asset("built/report.js"),
        report=harmless(json.dumps(report)),
        series="\n".join(scripts),
    )
    path.write_text(page, encoding="utf-8")
    return path


def drawn(opened: Any) -> Any:
    """Return an opened page, when its charts and curves are there."""
    opened.page.wait_for_selector("body[data-drawn]")
    if opened.page.query_selector("#curves"):
        opened.page.wait_for_selector(".timechart[data-points]")
    return opened.page
