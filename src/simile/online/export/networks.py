"""Networks in ONNX: torch writes its part itself."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

import numpy as np

from simile._common.needs import need
from simile.errors import ArgumentError
from simile.online.export.graphs import OPSET, Graph


@runtime_checkable
class Networked(Protocol):
    """A model that is a torch module inside, as `simile.neural.Network` is."""

    def module(self) -> Any:
        """Return a torch.nn.Module (CPU, float32, eval) that maps raw states (n, features) to (n, k)."""


def network(graph: Graph, seen: str, model: Networked, n_features: int) -> str:
    """Add a network that reads `seen` (n, features), double; returns (n, k), double."""
    # torch's exporter needs onnxscript.
    _, torch = (need(name, "exporting a network", extra="torch,export") for name in ("onnxscript", "torch"))
    # Two rows: torch takes a size of one for a constant.
    example = torch.zeros((2, n_features), dtype=torch.float32)
    with _quiet(), torch.inference_mode(False):
        program = torch.onnx.export(
            model.module(),
            (example,),
            dynamo=True,
            opset_version=OPSET,
            dynamic_shapes=({0: torch.export.Dim("n")},),
            verbose=False,
        )
    if program is None:
        raise ArgumentError(f"policy: torch could not export the network ({type(model).__name__})")
    return graph.cast(graph.merge(program.model_proto, graph.cast(seen, np.float32)), np.float64)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep the exporter's chatter from whoever exports a policy; its errors still come through."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
