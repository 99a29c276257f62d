"""Roll-outs for the page's curves: what was read, loaded and computed is kept for the next look."""

from __future__ import annotations

import json
import math
import struct
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from simile._common.files import read_stamp
from simile._common.text import plain
from simile._common.typing import FloatArray
from simile._common.web import RequestError
from simile.camera.film.watch import watch_page
from simile.camera.games import Game
from simile.camera.tracking.recordings import ARRAYS, load_game
from simile.data.demonstrations import Demonstration, Demonstrations
from simile.evaluation.report.curves import thin
from simile.learning.runs import POLICY, RunFolder, reading_arguments
from simile.policies.policies import SmoothPolicy, describe_hold, given_frames
from simile.studio.cache import Cache
from simile.studio.child_tasks import game_file
from simile.studio.preview import Preview, PreviewedPolicy, compute_outputs, roll

MOST_SAMPLES = 400_000  # of a curve; longer ones are thinned to their extremes

NO_HOLD = {"hold": None, "stepping": None}

Parts = tuple[Demonstrations, Demonstrations]


def import_early() -> None:
    """Load what the first roll-out needs; it takes a second, and nobody should wait for it."""
    from simile.models.kernels import filtering, rolling  # noqa: F401


class PreviewService:
    """Previews of all runs, with small caches of what they share."""

    def __init__(self, max_memory: float | None = None) -> None:
        self._max_memory = max_memory
        self._parts: Cache[Parts] = Cache(3)
        self._policies: Cache[PreviewedPolicy] = Cache(8)
        self._outputs: Cache[FloatArray] = Cache(32)

    def describe(self, run: RunFolder) -> dict[str, Any]:
        """Return the held-out sequences of a run and the range of its slider."""
        policy, held_out = self._load_policy(run), self._read_parts(run)[1]
        return {
            "actions": list(held_out.action_names),
            "rate": held_out.rate,
            "sequences": [{"name": d.name, "frames": len(d)} for d in held_out],
            "smoothness": policy.describe_range(),
            "begins": given_frames(policy.whole),
            **NO_HOLD,
            **describe_hold(policy.policy),
        }

    def roll(self, run: RunFolder, sequence: int, smoothness: float | None) -> tuple[Demonstration, Preview]:
        """Roll a run's policy out over one of its held-out sequences, at its own lambda or at another."""
        held_out = self._read_parts(run)[1]
        if not 0 <= sequence < len(held_out):
            raise RequestError(404, f"sequence must be from 0 to {len(held_out) - 1}; got {sequence}")
        previewed, demo = self._load_policy(run), held_out[sequence]
        outputs, path = None, previewed.path
        if (policy := previewed.linear) is not None:
            key = self._make_key(run), sequence
            if smoothness is None or smoothness == previewed.smoothness or not isinstance(path, SmoothPolicy):
                outputs = self._outputs.get((*key, "own"), lambda: compute_outputs(policy, demo))
            else:
                stacked = self._outputs.get((*key, "path"), lambda: compute_outputs(path, demo))
                outputs = previewed.read_path(stacked, smoothness)
        return demo, roll(previewed, demo, smoothness, outputs)

    def curves(self, run: RunFolder, sequence: int, smoothness: float | None) -> bytes:
        """Return the expert's and the policy's curves as the page unpacks them: a JSON header, then float32."""
        begin = time.perf_counter()
        demo, rolled = self.roll(run, sequence, smoothness)
        step = math.ceil(len(demo) / MOST_SAMPLES)
        columns = thin(np.hstack([demo.actions, rolled.actions]), step)
        header = {
            "curves": ["expert", "policy"],
            "actions": list(demo.action_names),
            "frames": len(demo),
            "step": step,
            "begins": rolled.begins,
            "rate": demo.rate,
            "smoothness": rolled.smoothness,
            "rmse": rolled.score.rmse,
            "roughness": rolled.score.roughness,
            "reversals": rolled.reversals,
            "rest": rolled.rest,
            "lag": rolled.lag,
            "preview": not rolled.is_own,
            **NO_HOLD,
            **describe_hold(self._load_policy(run).policy),
            "milliseconds": round(1000.0 * (time.perf_counter() - begin), 3),
        }
        return _pack(header, columns)

    def court(self, run: RunFolder, games: Path, sequence: int, smoothness: float | None) -> bytes:
        """Return a page that plays a held-out game, with the operator's camera and the policy's."""
        demo, rolled = self.roll(run, sequence, smoothness)
        game = _cut(load_game(game_file(games, int(demo.name.rpartition(" ")[2]))), len(demo))
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "court.html"
            watch_page(game, {"operator": demo.actions, "simile": rolled.actions}, page)
            return page.read_bytes()

    def _load_policy(self, run: RunFolder) -> PreviewedPolicy:
        def load() -> PreviewedPolicy:
            policy, path = run.policy(max_memory=self._max_memory), run.stacked(max_memory=self._max_memory)
            return PreviewedPolicy(policy, self._read_parts(run)[0], path)

        return self._policies.get(self._make_key(run), load)

    def _read_parts(self, run: RunFolder) -> Parts:
        """Return what a run learned from and what it held out; runs on the same data share them."""
        data = run.config["data"]
        stamps = [read_stamp(Path(p)) for p in ([data] if isinstance(data, str) else data)]
        alike = [data, stamps, reading_arguments(run.config), run.config.get("test"), run.config["seed"]]

        def read() -> Parts:
            learned, held = run.demonstrations()
            return learned, learned if held is None else held

        return self._parts.get(json.dumps(alike), read)

    def _make_key(self, run: RunFolder) -> tuple[str, int, int, int]:
        """Return what changes when a round has left a better policy."""
        found = read_stamp(run.path / POLICY)
        if found is None:
            raise RequestError(409, "there is no policy to look at: the first round has not ended")
        return str(run.path), *found


def _cut(game: Game, frames: int) -> Game:
    """Return the last frames of a game: of a single one, the end is held out."""
    begin = len(game) - frames
    arrays = {name: array for name in ARRAYS if (array := getattr(game, name)) is not None}
    return replace(game, **{name: array[begin:] for name, array in arrays.items()})


def _pack(header: dict[str, Any], columns: FloatArray) -> bytes:
    text = json.dumps(plain(header)).encode()
    padding = b"\0" * (-(4 + len(text)) % 4)
    return struct.pack("<I", len(text)) + text + padding + np.ascontiguousarray(columns.T, dtype="<f4").tobytes()
