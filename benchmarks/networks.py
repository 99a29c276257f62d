"""Networks: how accurate, and how fast on a GPU.

How accurate: against the default of `learn` on the real data sets (`--data`, or the variable SIMILE_DATA), at equal
smoothness and on the splits of benchmarks/accuracy.py.

    python benchmarks/networks.py --jobs 2

How fast: roll-outs of 4,096 sequences by 10,000 steps on a GPU and on the CPU. This part needs numpy and torch alone.

    python benchmarks/networks.py --device cuda
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

N_SEQUENCES, N_STEPS, N_CONTEXTS, UNITS = 4_096, 10_000, 10, 64
LAG = 10.0  # frames that the filter lags by
AROUND = (0.6, 1.0, 1.7)  # times the lag of the default policy, where contenders are trained


def seconds(act: Callable[[], object]) -> float:
    """Return the time of an act."""
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin


def gru_policy(bounded: bool) -> Any:
    """Make a policy with a GRU of random weights and the default horizon; speed does not depend on training."""
    import torch

    from simile.data.recorded import ActionSpace
    from simile.data.states import Horizon
    from simile.models.neural import GRU, Network, StateShape
    from simile.models.neural.modules import weights_of
    from simile.models.regularizers import CriticallyDamped
    from simile.policies.policies import SmoothPolicy

    torch.manual_seed(0)
    horizon, recipe, h = Horizon.auto(30.0), GRU(UNITS), CriticallyDamped(3)
    shape = StateShape.of(horizon, N_CONTEXTS, 1)
    width = N_CONTEXTS + 1
    units = np.zeros(width, np.float32), np.ones(width, np.float32), np.zeros(1, np.float32), np.ones(1, np.float32)
    f = Network(recipe, shape, weights_of(recipe(shape)), *units)
    smoothness = h.smoothness_for(LAG)
    space = ActionSpace(-0.01, 0.01) if bounded else ActionSpace()
    return SmoothPolicy(f, h.fit([np.zeros((1, 1))], smoothness), smoothness, horizon, None, N_CONTEXTS, space=space)


def time_rollouts(device: str, n: int, steps: int) -> None:
    """Roll many sequences out on a device, and on the CPU a few of them in each way that there is."""
    from simile.policies.batched import rollouts
    from simile.policies.rollouts import ColdStart, rollout

    policy, bounded = gru_policy(bounded=False), gru_policy(bounded=True)
    contexts = np.random.default_rng(0).standard_normal((n, steps, N_CONTEXTS), dtype=np.float32)
    few, in_step = min(n, 8), max(2, min(20, steps // 10))
    print(f"Roll-outs of {n:,} sequences by {steps:,} steps, GRU({UNITS}) on {N_CONTEXTS} contexts at 11 lags")
    print(f"{'':58}{'seconds':>10}{'frames/s':>14}")

    def told(name: str, spent: float, frames: int) -> float:
        whole = spent * n * steps / frames
        scaled = f"{name} (measured on {frames:,} frames)" if frames < n * steps else name
        print(f"{scaled:58}{whole:10.2f}{frames / spent:14,.0f}", flush=True)
        return whole

    def frame_by_frame() -> None:
        from simile.data.states import Horizon, Tape

        tape = Tape.of([x[:in_step].astype(float) for x in contexts], [np.zeros((in_step, 1))] * n)
        first = np.arange(n) * in_step
        for t in range(in_step):
            tape.actions[first + t] = policy.act(tape.states(Horizon(0, 0), first + t), np.zeros(n))

    rollouts(policy, contexts[:few, :100], device=device)  # the first call loads and plans
    slow = told("CPU, frame by frame, all sequences in step", seconds(frame_by_frame), n * in_step)
    listed = [x.astype(float) for x in contexts[:few]]
    blocks = seconds(lambda: rollout(policy, listed, start=ColdStart()))
    ahead = told("CPU, simile.rollout: f in blocks, one thread", blocks, few * steps)
    told("CPU, batched.rollouts", seconds(lambda: rollouts(policy, contexts[:few], device="cpu")), few * steps)
    fast = told(f"{device}, filter by FFT", seconds(lambda: rollouts(policy, contexts, device=device)), n * steps)
    told(f"{device}, bounds, so frame by frame", seconds(lambda: rollouts(bounded, contexts, device=device)), n * steps)
    print(
        f"{device} with transfers is {slow / fast:,.0f} times as fast as frame by frame, {ahead / fast:,.0f} as blocks"
    )
    for name, one in (("FFT", policy), ("bounds", bounded)):
        here = np.stack(rollout(one, listed, start=ColdStart()))
        apart = np.abs(rollouts(one, contexts[:few], device=device) - here).max()
        print(f"largest difference to simile.rollout, {name}: {apart:.1e}")


def on_device(device: str, quick: bool) -> None:
    """Measure speed; prints what it ran on."""
    import torch

    name = torch.cuda.get_device_name() if device.startswith("cuda") else "CPU"
    print(f"{name}, torch {torch.__version__}, {torch.get_num_threads()} CPU threads\n")
    time_rollouts(device, *((64, 500) if quick else (N_SEQUENCES, N_STEPS)))


def contenders() -> dict[str, Any]:
    """Return the models that are compared with the default ones, by name."""
    from simile.learning.components import MODELS
    from simile.models.neural import GRU, MLP, TCN, TorchRegressor

    return {
        "forest": MODELS[0],
        "MLP": TorchRegressor(MLP()),
        "TCN": TorchRegressor(TCN()),
        "GRU": TorchRegressor(GRU(32)),
        "default + MLP": [*MODELS, TorchRegressor(MLP())],
    }


def measure(case: Any, names: list[str]) -> dict[str, tuple[float, float]]:
    """Return RMSE and roughness of the default on one case, and ratios of RMSE to it with CPU seconds, by name."""
    import simile
    from simile.data.reference import Reference
    from simile.evaluation.comparison.result import Trial, stand
    from simile.models.regularizers import CriticallyDamped
    from simile.policies.policies import collapse
    from simile.policies.rollouts import ExpertStart

    train, test = case.load()
    policy: Any = collapse(simile.learn(train).policy)
    reference = Reference(test, policy.units.scale, policy.memory)
    ours = reference.measure(simile.rollout(policy, test))
    h = CriticallyDamped(3)
    values = [h.smoothness_for(h.lag(policy.smoothness) * by) for by in AROUND]
    found = {"default": (ours.rmse, ours.roughness)}
    for name in names:
        begin = time.process_time()
        points = simile.path(train, model=contenders()[name], smoothness=values).points
        spent = time.process_time() - begin
        trials = []
        for point in points:
            rolled = simile.rollout(point.policy, test, start=ExpertStart(reference.begin))
            trials.append(Trial(point.smoothness, point.policy, point.error, {}, reference.tally(rolled)))
        standing = stand(trials, ours.roughness)
        assert standing is not None
        found[name] = (standing.tally.score.rmse / found["default"][0], spent)
    return found


def on_data(folder: Path, only: str | None, names: list[str], splits: int, jobs: int) -> None:
    """Compare with the default of `learn` on the real data sets."""
    from accuracy import COLUMNS, Case, mean

    cases = [Case(name, i, folder) for name in COLUMNS if only in (None, name) for i in range(splits)]
    print("RMSE against the default of learn, at its roughness on the test part; below 1 the network is better")
    print(f"{'data':16}{'split':>6}{'RMSE':>9}{'roughness':>11}" + "".join(f"{n:>16}{'CPU s':>8}" for n in names))
    found = []
    with ProcessPoolExecutor(jobs) as pool:
        for case, row in zip(cases, pool.map(measure, cases, [names] * len(cases)), strict=True):
            found.append((case, row))
            cells = "".join(f"{row[n][0]:16.3f}{row[n][1]:8.0f}" for n in names)
            print(f"{case.name:16}{case.number:6d}{row['default'][0]:9.4f}{row['default'][1]:11.3f}{cells}", flush=True)
    for name in (*dict.fromkeys(case.name for case, _ in found), None):
        rows = [row for case, row in found if name in (None, case.name)]
        cells = "".join(f"{mean([row[n][0] for row in rows]):16.3f}{'':8}" for n in names)
        print(f"{name or 'all':16}{'geometric mean':>26}{cells}")


def main() -> None:
    """Measure what was asked for and print every number."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SIMILE_DATA", beside)))
    parser.add_argument("--device", help="measure speed on this device instead: cuda, or cpu")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--models", default="forest,MLP,TCN,GRU,default + MLP", help="which contenders, by commas")
    parser.add_argument("--only", help="one data set: car_following, reservoir or head360")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="less data, to see that it runs")
    given = parser.parse_args()
    if given.device is not None:
        on_device(given.device, given.quick)
        return
    if not given.data.is_dir():
        parser.error(f"{given.data} is not there: give the folder of the real data sets as --data")
    if given.quick:
        on_data(given.data, given.only or "reservoir", ["MLP"], 1, 1)
    else:
        on_data(given.data, given.only, given.models.split(","), given.splits, given.jobs)


if __name__ == "__main__":
    main()
