"""Roll-outs of thousands of sequences at once, on a GPU where there is one."""

from __future__ import annotations

from typing import Any

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray, PerAction
from simile.errors import ArgumentError, DivergedError
from simile.models import PiecewiseLinear, parts_of
from simile.models.closed_loop import ClosedLoop
from simile.models.neural import _torch
from simile.models.neural.network import Network
from simile.policies.policies import Policy, SmoothPolicy, whole
from simile.policies.precision import find_limits, warn_unresolved
from simile.policies.rollouts import find_first

BLOCK = 1 << 16  # states that f is asked for at a time: as many as any library for GPUs takes


def rollouts(
    policy: Policy, contexts: Any, *, start: Any = None, device: str | None = None, block: int = BLOCK
) -> FloatArray:
    """Roll a policy of networks out over many sequences of one length; f first, and then the filter behind it.

    It does what `simile.rollout` does, on a device: f on all frames in blocks, and then the filter by FFT; sequences
    that leave the bounds by that are filtered again, frame by frame and together. Both filters are in double precision.

    Parameters
    ----------
    policy : Policy
        With one smoothness and a linear h; its f a network on contexts alone, or several.
    contexts : (n, T, m) array
        Contexts of n sequences.
    start : array_like, optional
        The action before the first frame, (k,) or (n, k), taken to have lasted forever; by default f's guess from the
        first context (`ColdStart`).
    device : str, optional
        "cpu" or "cuda"; the GPU where there is one by default.
    block : int
        States that f is asked for at a time; more need more memory.

    Returns
    -------
    (n, T, k) array
        The actions, in the user's units.

    Raises
    ------
    DivergedError
        When an action is no number.
    """
    policy, parts, loop = _check(policy)
    X = np.asarray(contexts)
    shape = parts[0][0][0].shape
    if X.ndim != 3 or 0 in X.shape or X.shape[2] != shape.n_contexts:
        raise ArgumentError(f"contexts must be an (n, T, {shape.n_contexts}) array; got shape {X.shape}")
    X = policy.units.shift(X)
    if (limits := find_limits(policy, shape.n_contexts)) is not None:
        warn_unresolved(policy, X, limits)
    X = X.astype(np.float32, copy=False)
    block = checks.whole_number(block, "block", at_least=1)
    place = _torch.device_of(device)
    torch = _torch.require()
    from simile.models.neural import filtering

    with torch.inference_mode(), _torch.full_precision():
        z = _predict(parts, torch.from_numpy(np.ascontiguousarray(X)).to(place), block)
        taps = loop.taps

        def on_device(values: FloatArray) -> Any:
            return torch.as_tensor(np.broadcast_to(values, (shape.n_actions,)).copy(), device=place)

        low, high = (on_device(policy.units.standardize(b)) for b in (policy.space.low, policy.space.high))
        sides = find_first(policy) if start is None else None
        first = None if sides is None else torch.as_tensor(sides, device=place)
        past = z[:, 0] if start is None else _read_start(start, policy, len(X), torch, place)
        past = past if first is None else torch.clamp(past, *first)
        if policy.offset is not None:
            share, fade = on_device(policy.offset.share), on_device(policy.offset.fade)
            fading = fade ** torch.arange(z.shape[1], dtype=z.dtype, device=place)[:, None]
            z = z + (share * (past - z[:, 0]))[:, None] * fading
        actions = _filter(z, past, taps, block)
        left = _find_left(actions, low, high, first)
        if bool(left.any()):
            history = past[left][:, None].expand(-1, len(taps) - 1, -1)
            actions[left] = filtering.follow(z[left], torch.as_tensor(taps, device=place), history, low, high, first)
        if not bool(torch.isfinite(actions).all()):
            raise DivergedError("a roll-out diverged: try other smoothness, or an ActionSpace")
        found: FloatArray = actions.cpu().numpy()
        if policy.hold is not None:
            stand = torch.clamp(past, low, high).cpu().numpy()
            begun = np.concatenate([stand[:, np.newaxis], found], axis=1)
            rows = begun.reshape(-1, shape.n_actions)
            found = policy.hold.along(rows, np.arange(len(rows)) % begun.shape[1] == 0).reshape(begun.shape)[:, 1:]
    actions = policy.space.clip(policy.units.restore(found))
    if start is None:
        actions[:, 0] = policy.space.begin(actions[:, 0])
    return actions


def _find_left(actions: Any, low: Any, high: Any, first: Any) -> Any:
    """Tell which of roll-outs (n, T, k) that know of no bounds leave them, (n,)."""
    inside = ((actions >= low) & (actions <= high)).all(dim=2).all(dim=1)
    if first is not None:
        inside &= ((actions[:, 0] >= first[0]) & (actions[:, 0] <= first[1])).all(dim=1)
    return ~inside


Parts = tuple[list[tuple[Network, PerAction]], FloatArray]  # networks and their weights, and what is always added, (k,)


def _check(policy: Policy) -> tuple[SmoothPolicy, Parts, ClosedLoop]:
    """Return the policy as one, its networks with what is added to them, and the filter behind them."""
    one = whole(policy)
    if one is not None and (loop := one.closed_loop) is not None and not one.horizon.memory:
        parts, networks, constant = parts_of(one.f), [], np.zeros(one.n_actions)
        for f, weight in parts:
            if isinstance(f, Network):
                networks.append((f, weight))
            elif isinstance(f, PiecewiseLinear) and not len(f.feature):  # the mean
                constant += weight * f.intercept
            else:
                break
        else:
            if networks:
                return one, (networks, constant), loop
    raise ArgumentError(
        "policy must have a linear h and networks on contexts alone to be rolled out in blocks on a device: use "
        "simile.rollout for others"
    )


def _predict(parts: Parts, X: Any, block: int) -> Any:
    """Return what f says in every frame of the contexts X (n, T, m), (n, T, k) in double precision."""
    torch = _torch.require()
    n, length, m = X.shape
    networks, constant = parts
    modules = [(f.module().to(X.device), torch.as_tensor(weight, device=X.device)) for f, weight in networks]
    shape = networks[0][0].shape
    lags = torch.tensor(shape.context_lags, device=X.device)
    z = torch.as_tensor(constant, device=X.device).repeat(n, length, 1)
    rows = max(1, block // length)  # sequences at a time, or else frames of one
    frames = length if rows > 1 else min(length, block)
    for i in range(0, n, rows):
        for t in range(0, length, frames):
            end = min(t + frames, length)
            places = (torch.arange(t, end, device=X.device)[:, None] - lags).clamp(0, length - 1)
            states = X[i : i + rows][:, places.reshape(-1)].reshape(-1, len(lags) * m)
            for module, weight in modules:
                z[i : i + rows, t:end] += weight * module(states).double().reshape(-1, end - t, shape.n_actions)
    return z


def _read_start(start: Any, policy: SmoothPolicy, n: int, torch: Any, place: Any) -> Any:
    given = policy.units.standardize(checks.table(np.atleast_2d(start), "start"))
    if given.shape not in ((1, policy.n_actions), (n, policy.n_actions)):
        raise ArgumentError(
            f"start must hold an action, ({policy.n_actions},) or ({n}, {policy.n_actions}); got {given.shape}"
        )
    return torch.as_tensor(given, device=place).expand(n, -1)


def _filter(z: Any, past: Any, taps: FloatArray, block: int) -> Any:
    """Filter z (n, T, k) by FFT, after an action `past` (n, k) that has lasted forever."""
    torch = _torch.require()
    from simile.models.neural import filtering

    response = torch.as_tensor(filtering.impulse_response(taps, z.shape[1]), device=z.device)
    begun = z.clone()
    for t in range(min(len(taps) - 1, z.shape[1])):  # what is left of the past is an input to the first frames
        begun[:, t] -= past * torch.as_tensor(taps[t + 1 :].sum(axis=0), device=z.device)
    out = torch.empty_like(z)
    rows = max(1, 64 * block // z.shape[1])  # as room allows: a transform takes several times that of its input
    for i in range(0, len(z), rows):
        out[i : i + rows] = filtering.filter_signal(begun[i : i + rows], response)
    return out
