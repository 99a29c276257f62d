"""Somebody else's plant: the stirred tank reactor of pcgym (`pip install pcgym`), and its model predictive control.

python examples/plants/reactor.py
"""

import numpy as np
import pcgym
from pcgym.oracle import oracle

import simile
from simile.evaluation.plants import record

FRAMES = 80  # of 0.4 minutes
LIMITS = {"low": np.array([0.7, 300.0, 0.8]), "high": np.array([1.0, 350.0, 0.9])}
COOLING = {"low": np.array([295.0]), "high": np.array([302.0])}


class Reactor:
    """A reactor: how much of a substance is left (Ca, mol/l) depends on the coolant's temperature (K)."""

    def reset(self, seed):
        """Draw the set-points."""
        wished = np.random.default_rng(seed).uniform(0.8, 0.9, FRAMES // 20)
        self.parameters = {
            "model": "cstr",
            "N": FRAMES,
            "tsim": 0.4 * FRAMES,
            "SP": {"Ca": np.repeat(wished, 20)},
            "x0": np.array([0.8, 330.0, wished[0]]),
            "o_space": LIMITS,
            "a_space": COOLING,
            "normalise_a": False,
            "normalise_o": False,
        }
        self.env, self.control, self.frame = pcgym.make_env(self.parameters), None, 0
        return self.look(self.env.reset(seed=seed)[0])

    def look(self, observed):
        """Return what is measured, and the set-point of this frame; Ca and temperature follow from the action."""
        self.state = observed[:2]
        return {"setpoint": self.parameters["SP"]["Ca"][self.frame], "Ca": observed[0], "temperature": observed[1]}

    def expert(self):
        """Return what the model predictive control of pcgym does, which looks 15 frames ahead."""
        if self.control is None:
            self.control = oracle(pcgym.make_env, self.parameters, {"N": 15}).setup_mpc()[0]
            parameters = self.control.p_fun  # of a time, which NumPy 2.4 no longer takes for a number
            self.control.p_fun = lambda t: parameters(float(np.squeeze(t)))
            self.control.x0 = self.state
            self.control.set_initial_guess()
        return self.control.make_step(self.state).ravel()

    def step(self, action):
        """Cool for a frame; what costs is how far Ca is off."""
        observed, reward, terminated, truncated, _ = self.env.step(np.clip(action, COOLING["low"], COOLING["high"]))
        self.frame += 1
        return (None if terminated or truncated else self.look(observed)), 1e4 * -float(np.squeeze(reward))


if __name__ == "__main__":
    demos = record(Reactor(), episodes=12, action_names=["coolant"])
    for left_out in ([], ["Ca", "temperature"]):
        policy = simile.learn(demos.without(left_out)).policy
        print(f"without {left_out}: {simile.evaluate(policy, plant=Reactor(), seed=1000).verdict}\n")
