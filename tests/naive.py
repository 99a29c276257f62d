"""Slow, obvious twins of what the library does fast."""

from __future__ import annotations

import numpy as np


def naive_state(demos, actions, horizon, sequence, t):
    """s_t = [x_t, ..., x_{t-p}, a_{t-1}, ..., a_{t-q}]; a lag before the first frame repeats that frame's value."""
    state = []
    for lag in horizon.context_lags:
        for j in range(demos.n_contexts):
            state += [demos[sequence].contexts[max(t - lag, 0), j]]
    for lag in horizon.action_lags:
        for j in range(demos.n_actions):
            state += [actions[sequence][max(t - lag, 0), j]]
    return np.array(state)


def naive_states(demos, actions, horizon):
    """All states, (n, features), frame by frame and sequence after sequence."""
    return np.array(
        [naive_state(demos, actions, horizon, i, t) for i in range(len(demos)) for t in range(len(demos[i]))]
    )


def naive_rollout(policy, demos):
    """Roll a policy in standard units out, one sequence and one frame at a time, from the expert's start."""
    trajectories = []
    for number, demo in enumerate(demos):
        actions = demo.actions.copy()
        for t in range(policy.memory, len(demo)):
            rolled = [actions if i == number else d.actions for i, d in enumerate(demos)]
            f = policy.f.predict(naive_state(demos, rolled, policy.horizon, number, t)[np.newaxis])[0]
            h = sum(policy.h.coefficients[i] * actions[max(t - 1 - i, 0)] for i in range(policy.h.order))
            actions[t] = (f + policy.smoothness * h) / (1.0 + policy.smoothness)
        trajectories.append(actions)
    return trajectories
