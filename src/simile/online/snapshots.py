"""Snapshots: the state of a predictor as a flat dict of arrays and plain numbers, and what it is checked against."""

from __future__ import annotations

from typing import Any

import numpy as np

from simile.errors import ArgumentError

State = dict[str, Any]

# What must be the same where a state is taken up again; all else is what differs from moment to moment.
MEASURES = ("n_streams", "n_contexts", "n_actions", "reach", "memory", "n_stages", "rate", "lead")
CONTEXT_AXIS = {"contexts": 2, "context": 0}  # where these arrays are m long


def check_state(state: Any, own: State) -> State:
    """Return a state with plain numbers where it has numbers; refuse one that does not fit beside `own`."""
    if isinstance(state, dict) and "offset" in own:  # of a policy that kept none: it is taken anew
        state = {"offset": np.full_like(own["offset"], np.nan), **state}
    if isinstance(state, dict):  # one may have begun at known actions, and bands may be asked for in one place alone
        own = {**own, "known": own["begun"]}
        own = {name: value for name, value in own.items() if name not in ("band", "known") or name in state}
    if not isinstance(state, dict) or set(state) != set(own):
        odd = sorted(map(str, set(state) ^ set(own))) if isinstance(state, dict) else [type(state).__name__]
        raise ArgumentError(f"state must be what state_dict() of such a predictor returned; got {', '.join(odd)}")
    found = {name: np.asarray(value) for name, value in state.items()}  # numpy.savez makes arrays of numbers
    m = int(found["n_contexts"]) if found["n_contexts"].ndim == 0 and found["n_contexts"].dtype.kind == "i" else -1
    # Where the policy takes any contexts, their number comes with the first of them.
    open_width = 0 in (own["n_contexts"], m)
    for name, value in found.items():
        wanted = np.asarray(own[name])
        shape = list(wanted.shape)
        if open_width and name in CONTEXT_AXIS:
            shape[CONTEXT_AXIS[name]] = m
        if value.dtype != wanted.dtype or value.shape != tuple(shape):
            raise ArgumentError(
                f"state[{name!r}] must be {wanted.dtype} of shape {tuple(shape)}; got {value.dtype} of shape "
                f"{value.shape}: it belongs to another predictor, or to other stages"
                + ", or was taken by another version: leave it out, and bands begin anew"
                * (name == "band")
            )
        free = name not in (*MEASURES, "context_origin") or (name == "n_contexts" and open_width)
        if not free and not np.array_equal(value, wanted, equal_nan=True):
            raise ArgumentError(
                f"state[{name!r}] must be {wanted}, as here; got {value}: it belongs to another policy, other stages, "
                "another number of streams or another rate"
            )
    if not np.isfinite(found.get("band", 0.0)).all():
        raise ArgumentError("state['band'] must be finite numbers: it is damaged: leave it out, and bands begin anew")
    return {name: value.item() if value.ndim == 0 else value for name, value in found.items()}
