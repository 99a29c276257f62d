"""Who acts: the policy at work, the next one made ready beside it, and the hand-over between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from simile._common import memory
from simile._common.typing import IntArray
from simile.errors import ArgumentError, StorageError
from simile.online.gaps import Gap
from simile.online.streams import Streams
from simile.policies.footprint import Footprint
from simile.policies.policies import Policy, timing
from simile.policies.stages import Stage
from simile.policies.storage.encoding import Encoder
from simile.policies.storage.files import Packed, digest, digest_of
from simile.serving.handover import DEEPEST, Acting, Handover
from simile.serving.inputs import check_columns

MOST_FRAMES = 1e6  # of a hand-over: nobody waits for more
ASSUMED_RATE = 60.0  # frames a second that a hand-over is counted in where neither policy nor user says


@dataclass(frozen=True, eq=False)
class PreparedPolicy:
    """A policy that is ready to act for all streams."""

    streams: Streams
    digest: str | None  # of the policy as it acts, whatever its card says; None for one that cannot be written down
    file_digest: str | None = None  # that of its file


class PolicySwitcher:
    """Hands streams on from policy to policy.

    Parameters
    ----------
    gap, stages, rate
        As for a `Predictor`; for all policies.
    n_streams : int
        Slots.
    seconds : float
        How long a hand-over takes.
    max_memory : float or None
        MB that each policy may take, with the past of all slots; a half of what there is by default.
    policy : Policy
        The first.
    recorded : bool
        Whether it is noted which actions a stage has changed.
    """

    def __init__(
        self,
        policy: Policy,
        n_streams: int,
        *,
        gap: Gap,
        stages: Sequence[Stage],
        rate: float | None,
        seconds: float,
        max_memory: float | None,
        recorded: bool = False,
    ) -> None:
        self.recorded = recorded
        self.gap, self.stages, self.seconds = gap, tuple(stages), seconds
        self._given_rate, self._n_streams = rate, n_streams
        self._limit = memory.read_limit(max_memory)
        self.current = self._build(policy)  # whose past is that of the streams
        self.acting: Acting = self.current.streams

    @property
    def streams(self) -> Streams:
        """All streams, as the policy at work knows them."""
        return self.current.streams

    def prepare(self, policy: Policy) -> PreparedPolicy:
        """Build what will act, and check that it can take over; slow, and safe in another thread."""
        self._check(policy)
        return self._build(policy)

    def take_over(self, prepared: PreparedPolicy, live: IntArray) -> None:
        """Let a policy that was prepared take over the streams in these slots."""
        self._check(prepared.streams.policy)
        if isinstance(self.acting, Handover) and self.acting.depth >= DEEPEST:
            raise ArgumentError(
                f"policy: {DEEPEST} hand-overs are still under way: wait until all streams have had their frames"
            )
        new = prepared.streams
        new.adopt(self.streams)
        frames = round(self.seconds * (new.rate or ASSUMED_RATE))  # which `_build` has checked
        self.acting = Handover(self.acting, new, frames) if len(live) and frames else new
        self.current = prepared

    def settle(self, live: IntArray) -> None:
        """Let policies go that no stream needs any more."""
        if isinstance(self.acting, Handover):
            self.acting = self.acting.settle(live)

    def _check(self, policy: Policy) -> None:
        """Refuse a policy that cannot take over: one for other columns, or for other frames."""
        check_columns(self.streams.policy, policy)
        self.streams.check_fits(policy, "policy")

    def _build(self, policy: Policy) -> PreparedPolicy:
        m = policy.n_contexts or len(policy.card.context_names)
        waits = max(0, -timing(policy)[0])  # frames whose contexts are kept beside those that it looks back to
        Footprint(0, policy.reach + waits, m, policy.n_actions).check(self._limit, self._n_streams)
        streams = Streams(
            policy, self._n_streams, start=None, gap=self.gap, stages=self.stages, rate=self._given_rate, seed=0
        )
        if (frames := self.seconds * (streams.rate or ASSUMED_RATE)) > MOST_FRAMES:
            raise ArgumentError(
                f"handover: {self.seconds:g} s at a rate of {streams.rate or ASSUMED_RATE:g} Hz take {frames:g} "
                f"frames, and {MOST_FRAMES:g} are the most: make it shorter, or give --rate"
            )
        if not streams.n_contexts:
            raise ArgumentError("policy: it does not say how many contexts it takes: give n_contexts, or their names")
        streams.chain.watched = self.recorded
        encoder = Encoder()
        try:
            tree = encoder.encode(policy, "policy")
        except StorageError:
            return PreparedPolicy(streams, None)
        return PreparedPolicy(streams, digest(Packed({"policy": tree}, encoder.tensors)), digest_of(policy))
