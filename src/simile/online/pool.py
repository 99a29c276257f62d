"""Many online predictors of one policy, in step: one kernel call per frame for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike

from simile._common import checks
from simile._common.typing import FloatArray, IntArray
from simile.errors import ArgumentError, DivergedError
from simile.online import inputs
from simile.online.gaps import Extrapolate, Gap
from simile.online.snapshots import State, check_state
from simile.online.streams import Streams
from simile.policies.bands import Banded, check_level
from simile.policies.policies import Policy
from simile.policies.stages import Stage

if TYPE_CHECKING:
    from simile.online.recording import Recorder


class PredictorPool:
    """n predictors of one policy, each with a past of its own: thousands of streams cost little.

    Every stream acts as a `Predictor` of its own would, bit for bit; models other than forests must not let the
    bits of a row depend on the rows beside it. A frame that raises an error is taken by no stream.

    Parameters
    ----------
    policy : Policy
        What acts.
    n_streams : int
        n.
    start : array_like, optional
        Known actions as for a `Predictor`, for all streams, or a list with those of each; None starts cold.
    gap, stages, rate
        As for a `Predictor`.
    seed : int
        For stochastic policies: stream i draws as sequence i of a roll-out with this seed does.
    recorder : Recorder, optional
        What keeps every frame and action, off this thread.
    name : str
        What the recording calls these streams, before a hyphen and their numbers.

    Examples
    --------
    >>> import simile
    >>> demos = simile.tasks.pursuit(n_sequences=2, length=100, seed=0)
    >>> policy = simile.clone(demos, model=simile.SmoothForest(n_trees=3), horizon=simile.Horizon(2, 0)).policy
    >>> pool = PredictorPool(policy, n_streams=2)
    >>> pool.step(np.array([x[0] for x in demos.contexts])).shape
    (2, 1)
    """

    def __init__(
        self,
        policy: Policy,
        n_streams: int,
        *,
        start: Any = None,
        gap: Gap = Extrapolate(),  # noqa: B008 - frozen
        stages: Sequence[Stage] = (),
        rate: float | None = None,
        seed: int = 0,
        recorder: Recorder | None = None,
        name: str = "stream",
    ) -> None:
        n_streams = checks.whole_number(n_streams, "n_streams", at_least=1)
        self._streams = Streams(policy, n_streams, start=start, gap=gap, stages=stages, rate=rate, seed=seed)
        self._names = [f"{name}-{i}" for i in range(n_streams)]
        self.recording = None if recorder is None else self._streams.record(recorder, self._names)

    def __len__(self) -> int:
        return len(self._streams.everyone)

    @overload
    def step(
        self, X: ArrayLike, *, streams: ArrayLike | None = ..., present: ArrayLike | None = ..., band: None = ...
    ) -> FloatArray: ...
    @overload
    def step(
        self, X: ArrayLike, *, streams: ArrayLike | None = ..., present: ArrayLike | None = ..., band: float
    ) -> Banded: ...
    def step(
        self,
        X: ArrayLike,
        *,
        streams: ArrayLike | None = None,
        present: ArrayLike | None = None,
        band: float | None = None,
    ) -> FloatArray | Banded:
        """Take one frame of all streams, or of some, and return the actions to send.

        Parameters
        ----------
        X : (n, m) array_like
            A context per stream; NaN is a missing value.
        streams : (n,) array_like of int, optional
            Whose rows these are; all streams, in order, by default. The others wait.
        present : (n,) array_like of bool, optional
            False where a stream's frame was dropped: the row of X is ignored, and `gap` chooses the action.
        band : float, optional
            Level of the bands to return, as for `Predictor.step`.

        Returns
        -------
        (n, k) array
            The actions in the user's units, in the order of X; with `band`, a `Banded` of such arrays. Of a policy with
            a `lead`, they are for the frame so many after this one; where it waits (below 0), rows are NaN until their
            stream has waited, and `flush` gives the last answers.
        """
        level = None if band is None else check_level(band)
        if level is not None:
            self._streams.require_band()  # refused before the frame
        ids = self._ids(streams)
        mask = None if present is None else inputs.read_present(present, len(ids))
        contexts = inputs.read_contexts(X, len(ids), self._streams.n_contexts, self._streams.names, mask)
        if len(ids) == 0:
            none = np.empty((0, self._streams.n_actions))
            return none if level is None else Banded(none, none, none, np.empty(0, np.bool_))
        if level is not None:
            self._streams.ask_band(ids, level)
        whole = mask is None or mask.all()
        if whole:
            contexts = self._streams.preparer.prepare(ids, contexts)
        else:
            contexts[mask] = self._streams.preparer.prepare(ids[mask], contexts[mask])
        try:
            taken = self._streams.step(ids, contexts) if whole else self._streams.step_some(ids, contexts, mask)
        except DivergedError as error:  # no demonstration goes on over that
            self._begin(ids if error.stream is None else np.array([error.stream]))
            raise
        if self.recording is not None:
            here = np.ones(len(ids), np.bool_) if mask is None else mask
            if here.any():
                self._streams.note(self.recording, ids[here], contexts[here], taken[here])
            if not here.all():
                self._streams.note(self.recording, ids[~here], None, taken[~here], "gap")
        self._streams.warn_of_restarts()
        self._streams.measure_asked(ids)
        return self._streams.preparer.restore(taken) if level is None else self._streams.tell_band(ids, taken)

    def override(self, A: ArrayLike, X: ArrayLike | None = None, *, streams: ArrayLike | None = None) -> FloatArray:
        """Let operators act in this frame of all streams, or of some, by A (n, k); see `Predictor.override`.

        X (n, m) are the contexts; without them the last ones are taken to have lasted.
        """
        ids = self._ids(streams)
        actions = self._streams.read_actions(ids, A, "A")
        n_contexts, names = self._streams.n_contexts, self._streams.names
        contexts = None
        if X is not None:
            contexts = self._streams.preparer.prepare(ids, inputs.read_contexts(X, len(ids), n_contexts, names))
        taken = self._streams.override(ids, actions, contexts)
        if self.recording is not None:
            self._streams.note(self.recording, ids, contexts, taken, "operator")
        self._streams.measure_asked(ids, led=True)
        return self._streams.preparer.restore(taken)

    def flush(self, streams: ArrayLike | None = None) -> list[FloatArray]:
        """End the sequences of all streams, or of some: return the answers that each is still due, (any, k).

        As `Predictor.flush`; these streams are as new afterwards.
        """
        ids = self._ids(streams)
        due = self._streams.find_due(ids)
        answers = {stream: np.empty((0, self._streams.n_actions)) for stream in ids.tolist()}
        for sent in self._streams.flush(due):
            if self.recording is not None:
                self._streams.note(self.recording, due, None, sent)
            for stream, action in zip(due.tolist(), self._streams.preparer.restore(sent), strict=True):
                if not np.isnan(action).any():
                    answers[stream] = np.vstack([answers[stream], action])
        self._streams.warn_of_restarts()
        self.reset(ids)
        return list(answers.values())

    def reset(self, streams: ArrayLike | None = None, start: Any = None) -> None:
        """Make all streams, or some, new; `start` as in the constructor, for these streams alone."""
        self._streams.reset(self._ids(streams), start)
        self._begin(self._ids(streams))

    def state_dict(self) -> State:
        """Return all that is needed to go on elsewhere with equal bits: arrays and plain numbers by name."""
        return self._streams.state()

    def load_state_dict(self, state: State) -> None:
        """Go on where another pool was when it returned `state`; policy and stages must be like its own."""
        self._streams.expect(state)
        self._streams.load(check_state(state, self.state_dict()))
        self._begin(self._streams.everyone)

    def adopt(self, other: PredictorPool) -> None:
        """Go on where `other` is, which may be of another policy: its contexts and actions become the past here.

        Where this policy looks back further than the other, the oldest frame is taken to have lasted before. Stages
        go on from where the actuators are. `other` is left as it is.

        Parameters
        ----------
        other : PredictorPool
            With as many streams, contexts and actions, and the same lead.
        """
        ours, theirs = self._streams, other._streams
        for what, here, there in (
            ("streams", len(self), len(other)),
            ("contexts", ours.n_contexts, theirs.n_contexts or ours.n_contexts),
            ("actions", ours.n_actions, theirs.n_actions),
        ):
            if here != there and here:
                raise ArgumentError(f"other must have {here} {what}, as this pool; got {there}")
        theirs.check_fits(ours.policy, "policy")
        ours.adopt(theirs)
        self._begin(ours.everyone)

    def _begin(self, streams: IntArray) -> None:
        """Let the recording of these streams begin anew with the next frame."""
        if self.recording is not None:
            for slot in streams.tolist():
                self.recording.begin(slot, self._names[slot])

    def _ids(self, streams: ArrayLike | None) -> IntArray:
        return self._streams.everyone if streams is None else inputs.read_streams(streams, len(self))
