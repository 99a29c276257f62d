"""A valve that keeps the level of a tank, and its operator: what a feedback of the valve does to a policy.

python examples/plants/valve.py
"""

import numpy as np
from scipy.signal import lfilter

import simile
from simile.evaluation.plants import record

FRAMES = 600  # at 2 Hz


def wander(rng, frames, spread):
    """Draw what wanders smoothly around 0, and forgets within so many frames."""
    keep = np.exp(-1.0 / frames)
    path = lfilter([1.0 - keep], [1.0, -keep], rng.normal(size=FRAMES + 10 * frames))
    path = lfilter([1.0 - keep], [1.0, -keep], path)[-FRAMES:]
    return 2.0 * np.sqrt(frames) * spread * path


class Valve:
    """A tank: its level (m) rises with the inflow (m3/s), and falls the faster the more the valve (%) is open."""

    def reset(self, seed):
        """Draw the inflow, the level that is wished for, and how steady the operator's hand is."""
        rng = np.random.default_rng(seed)
        self.inflow = 5.0 + wander(rng, 20, 0.8)
        self.setpoint = np.repeat(rng.uniform(2.0, 4.0, FRAMES // 100), 100)
        self.hand = wander(rng, 8, 2.0)
        self.level, self.command, self.position, self.frame = self.setpoint[0], 50.0, 50.0, 0
        return self.look()

    def look(self):
        """Return what is measured; valve_position and level follow from the action."""
        t = self.frame
        exogenous = {"inflow": self.inflow[t], "setpoint": self.setpoint[t]}
        return exogenous | {"level": self.level, "valve_position": self.position}

    def expert(self):
        """Open the valve as inflow and wish ask for, with a hand that takes a while and is not steady."""
        wish = 17.3 * self.inflow[self.frame] / np.sqrt(self.setpoint[self.frame]) + self.hand[self.frame]
        return [self.command + 0.25 * (wish - self.command)]

    def step(self, action):
        """Let the valve follow the command for half a second; what costs is how far the level is off."""
        self.command = float(np.clip(action[0], 0.0, 100.0))
        self.position += 0.6 * (self.command - self.position)
        self.level += 0.05 * (self.inflow[self.frame] - 0.0578 * self.position * np.sqrt(max(self.level, 0.0)))
        cost = (self.level - self.setpoint[self.frame]) ** 2
        self.frame += 1
        return (self.look() if self.frame < FRAMES else None), cost


if __name__ == "__main__":
    demos = record(Valve(), episodes=12, rate=2.0, action_names=["valve_cmd"])
    for left_out in ([], ["valve_position"], ["level"], ["valve_position", "level"]):
        policy = simile.learn(demos.without(left_out)).policy
        print(f"without {left_out}: {simile.evaluate(policy, plant=Valve(), seed=1000).verdict}\n")
