"""The recipe for networks as F, trained on targets as any f is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from simile._common import checks
from simile._common.typing import FloatArray
from simile.data.states import States
from simile.errors import ArgumentError
from simile.models.neural import _torch
from simile.models.neural.network import Network
from simile.models.neural.recipes import MLP, Recipe, recipe_of
from simile.models.neural.shapes import StateShape

Precision = Literal["float32", "bfloat16"]
DEFAULT = MLP()


@dataclass(frozen=True)
class TorchRegressor:
    """A network as F, trained on targets like any other f.

    Parameters
    ----------
    module : Recipe or torch.nn.Module
        `MLP()`, `TCN()`, `GRU()`, any callable that makes a module for a `StateShape`, or a module, which is copied and
        trained from the weights it has. It maps states in standard units (n, features) to (n, k).
    epochs : int
        Most passes over the data.
    patience : int
        Passes in a row that may bring nothing on states left out.
    batch : int
        How many frames a step is taken on.
    rate, weight_decay : float
        Of AdamW; the weights that are kept are a running mean.
    device : {"cpu", "cuda"} or None
        Where to train; None for the GPU where there is one. Only the CPU gives the same bits every time.
    precision : {"float32", "bfloat16"}
        "bfloat16" multiplies in it and adds up in single precision, on GPUs.
    seed : int
        For the order of batches, beside the seed of the run, which initial weights are drawn by.

    Examples
    --------
    >>> TorchRegressor(MLP((32,)), epochs=20)
    TorchRegressor(module=MLP(hidden=(32,)), epochs=20)
    """

    module: Any = DEFAULT
    epochs: int = 60
    patience: int = 8
    batch: int = 2_048
    rate: float = 3e-3
    weight_decay: float = 1e-2
    device: str | None = "cpu"
    precision: Precision = "float32"
    seed: int = 0

    def __post_init__(self) -> None:
        recipe = recipe_of(self.module)
        for name in ("epochs", "patience", "batch"):
            checks.whole_number(getattr(self, name), name, at_least=1)
        checks.whole_number(self.seed, "seed", at_most=2**31 - 1)
        checks.number(self.rate, "rate", above=0.0)
        checks.number(self.weight_decay, "weight_decay", at_least=0.0)
        if self.precision not in get_args(Precision):
            raise ArgumentError(f"precision must be one of {', '.join(get_args(Precision))}; got {self.precision!r}")
        if self.device is not None and str(self.device).split(":")[0] not in ("cpu", "cuda"):
            raise ArgumentError(f"device must be 'cpu', 'cuda' or None; got {self.device!r}")
        object.__setattr__(self, "module", recipe)

    def __repr__(self) -> str:
        chosen = {n: v for n, f in self.__dataclass_fields__.items() if (v := getattr(self, n)) != f.default}
        arguments = {"module": self.module, **chosen}
        return f"TorchRegressor({', '.join(f'{n}={v!r}' for n, v in arguments.items())})"

    def fit_smooth(
        self,
        states: Sequence[States],
        labels: FloatArray,
        targets: FloatArray,  # noqa: ARG002
        anchors: FloatArray,  # noqa: ARG002
        smoothness: float,  # noqa: ARG002
        rng: np.random.Generator,
        *,
        weights: FloatArray | None = None,
    ) -> Network:
        """Fit to lazy states and their labels (n, k), from the network of the round before where there was one."""
        device = self._device()
        from simile.models.neural import on_targets
        from simile.models.neural.frames import Frames, statistics

        seed = int(rng.integers(2**31))
        with _torch.seed_torch(seed):
            frames = Frames.of(states, device)
            before = states[0].tape.memo.get(self._place(states[0]))
            if before is None:
                spread = labels.std(axis=0)
                units = labels.mean(axis=0), np.where(spread > 0.0, spread, 1.0)
                before = _begin(self.module, frames.shape, *statistics(frames), *units)
            learner = self._learner(before, device)
            on_targets.fit(
                learner,
                frames,
                labels,
                weights,
                epochs=self.epochs,
                patience=self.patience,
                batch=self.batch,
                rng=np.random.default_rng((self.seed, seed)),
            )
            fitted = _end(before, learner)
        self.remember(states[0], fitted)
        return fitted

    def remember(self, states: States, fitted: Network) -> None:
        """Let the next round of this run begin from a network that an earlier one fitted."""
        states.tape.memo[self._place(states)] = fitted

    def _place(self, states: States) -> tuple[Any, ...]:
        return "network", id(self), states.horizon

    def _device(self) -> Any:
        device = _torch.device_of(self.device)
        if self.precision == "bfloat16" and device.type == "cpu":  # some CPUs have no such instruction, and stop there
            raise ArgumentError("precision must be 'float32' on the CPU; got 'bfloat16': use it with device='cuda'")
        return device

    def _learner(self, network: Network, device: Any) -> Any:
        from simile.models.neural.learning import Learner

        module = network.module().to(device)
        return Learner(module, rate=self.rate, weight_decay=self.weight_decay, half=self.precision == "bfloat16")


def _begin(
    recipe: Recipe, shape: StateShape, mean: FloatArray, scale: FloatArray, center: FloatArray, spread: FloatArray
) -> Network:
    """Make an untrained network."""
    from simile.models.neural.modules import weights_of

    module = recipe(shape)
    if not callable(getattr(module, "state_dict", None)):
        raise ArgumentError(f"module must make a torch.nn.Module; {recipe!r} made {module!r}")
    network = Network(
        recipe, shape, weights_of(module.float()), *(v.astype(np.float32) for v in (mean, scale, center, spread))
    )
    _rehearse(network)
    return network


def _rehearse(network: Network) -> None:
    """Ask a new network once: a module of somebody's own may not fit the states."""
    import torch

    try:
        with torch.no_grad():
            made = tuple(network.module()(torch.zeros(2, network.shape.n_features)).shape)
    except Exception as error:  # whatever that module raises
        raise ArgumentError(
            f"module must take states of {network.shape.n_features} features: {type(error).__name__}: {error}"
        ) from error
    if made != (2, network.n_actions):
        raise ArgumentError(f"module must return (n, {network.n_actions}) for n states; got {made} for 2")


def _end(network: Network, learner: Any) -> Network:
    """Return the network with the weights that a learner arrived at."""
    from simile.models.neural.modules import weights_of

    return replace(network, parameters=weights_of(learner.averaged.inside))
