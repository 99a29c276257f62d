"""A crane that carries a load which swings, and its operator: where the trolley is, is cause and effect at once.

python examples/plants/crane.py
"""

import numpy as np
from valve import FRAMES, wander

import simile
from simile.evaluation.plants import record

STEP = 0.1  # seconds


class Crane:
    """A trolley on a rail, driven by its speed (m/s), and a load on a rope of 10 m below it."""

    def reset(self, seed):
        """Draw where the load is to go, the wind, and how steady the operator's hand is."""
        rng = np.random.default_rng(seed)
        self.target = np.repeat(rng.uniform(-15.0, 15.0, FRAMES // 150), 150)
        self.wind, self.hand = wander(rng, 60, 0.3), wander(rng, 10, 0.1)
        self.position, self.command, self.speed, self.frame = self.target[0], 0.0, 0.0, 0
        self.sway, self.swaying = 0.0, 0.0  # radians, and radians a second
        return self.look()

    def look(self):
        """Return what is measured; position, sway and speed follow from the action."""
        exogenous = {"target": self.target[self.frame], "wind": self.wind[self.frame]}
        return exogenous | {"position": self.position, "sway": self.sway, "drive_speed": self.speed}

    def expert(self):
        """Drive towards the target, and with the load where it swings."""
        to_go = self.target[self.frame] - self.position
        wish = np.clip(0.4 * to_go, -2.0, 2.0) + 4.0 * self.sway + self.hand[self.frame]
        return [self.command + 0.3 * (wish - self.command)]

    def step(self, action):
        """Let the drive follow the command; what costs is how far the load is off, and that it swings."""
        self.command = float(np.clip(action[0], -3.0, 3.0))
        before, self.speed = self.speed, self.speed + 0.5 * (self.command - self.speed)
        pull = (self.speed - before) / STEP + 0.2 * self.wind[self.frame]
        self.swaying += STEP * (-9.81 * np.sin(self.sway) - pull - 0.5 * self.swaying) / 10.0
        self.sway += STEP * self.swaying
        self.position += STEP * self.speed
        cost = (self.position + 10.0 * np.sin(self.sway) - self.target[self.frame]) ** 2
        self.frame += 1
        return (self.look() if self.frame < FRAMES else None), cost


if __name__ == "__main__":
    demos = record(Crane(), episodes=12, rate=1.0 / STEP, action_names=["speed_cmd"])
    for left_out in ([], ["drive_speed"], ["drive_speed", "position", "sway"]):
        policy = simile.learn(demos.without(left_out)).policy
        print(f"without {left_out}: {simile.evaluate(policy, plant=Crane(), seed=1000).verdict}\n")
