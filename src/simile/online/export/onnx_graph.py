"""A graph in the making: nodes and constants are added one by one, and equal ones only once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from simile._common.needs import need

OPSET, ML_OPSET, IR_VERSION = 18, 3, 8  # old enough for the runtimes of years


class Graph:
    """Builds one ONNX graph. What its methods take and return are names of values."""

    def __init__(self) -> None:
        for part in ("onnx.helper", "onnx.numpy_helper"):
            need(part, "an ONNX file")
        self._onnx = need("onnx", "an ONNX file")
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._inputs: list[Any] = []
        self._outputs: list[Any] = []
        self._known: dict[Any, str] = {}
        self._count = 0

    def input(self, name: str, shape: Sequence[str | int]) -> str:
        """Declare an input, double."""
        self._inputs.append(self._tensor(name, shape))
        return name

    def output(self, name: str, value: str, shape: Sequence[str | int]) -> None:
        """Declare an output, double."""
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [name]))
        self._outputs.append(self._tensor(name, shape))

    def constant(self, values: Any, kind: type[np.generic] = np.float64) -> str:
        """Return a constant."""
        array = np.ascontiguousarray(values, dtype=kind)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._known:
            self._known[key] = self._name("constant")
            self._constants.append(self._onnx.numpy_helper.from_array(array, self._known[key]))
        return self._known[key]

    def add(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node; returns its only output."""
        key = (kind, inputs, domain, str(attributes))
        if key not in self._known:
            self._known[key] = name = self._name(kind.lower())
            self._nodes.append(self._onnx.helper.make_node(kind, inputs, [name], domain=domain, **attributes))
        return self._known[key]

    def times(self, value: str, factors: Any) -> str:
        """Multiply by constants."""
        aside = _aside(factors)
        product = self.add("Mul", value, self.constant(np.multiply(factors, aside)))
        return product if aside == 1.0 else self.add("Mul", product, self.constant(1.0 / aside))

    def over(self, value: str, divisors: Any) -> str:
        """Divide by constants."""
        aside = _aside(divisors)
        quotient = self.add("Div", value, self.constant(np.multiply(divisors, aside)))
        return quotient if aside == 1.0 else self.add("Mul", quotient, self.constant(aside))

    def cast(self, value: str, kind: type[np.generic]) -> str:
        """Convert a value."""
        return self.add("Cast", value, to=self._onnx.helper.np_dtype_to_tensor_dtype(np.dtype(kind)))

    def tensor(self, values: Any) -> Any:
        """Return an attribute of doubles."""
        return self._onnx.numpy_helper.from_array(np.ascontiguousarray(values, dtype=np.float64))

    def merge(self, model: Any, value: str) -> str:
        """Add the graph of a model with one input and one output; returns the output."""
        import onnx.compose

        prefix = f"{self._name('part')}_"
        part = onnx.compose.add_prefix(model, prefix).graph
        for node in part.node:  # who wrote a model notes where, in files of theirs
            node.ClearField("metadata_props")
            node.ClearField("doc_string")
        self._nodes.append(self._onnx.helper.make_node("Identity", [value], [part.input[0].name]))
        self._nodes.extend(part.node)
        self._constants.extend(part.initializer)
        return str(part.output[0].name)

    def model(self, facts: Mapping[str, str], doc: str) -> Any:
        """Return the whole as a checked model."""
        helper = self._onnx.helper
        graph = helper.make_graph(self._nodes, "step", self._inputs, self._outputs, self._constants)
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid("ai.onnx.ml", ML_OPSET)]
        model = helper.make_model(
            graph, opset_imports=opsets, producer_name="simile", ir_version=IR_VERSION, doc_string=doc
        )
        helper.set_model_props(model, dict(facts))
        self._onnx.checker.check_model(model, full_check=True)
        return model

    def _tensor(self, name: str, shape: Sequence[str | int]) -> Any:
        return self._onnx.helper.make_tensor_value_info(name, self._onnx.TensorProto.DOUBLE, list(shape))

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}_{self._count}"


def _aside(factors: Any) -> float:
    """Return the power of two to multiply a factor by, and the result to divide by, which changes no bit of it.

    onnxruntime drops a factor that is 1 in single precision, even where it is not 1 in double.
    """
    almost = np.size(factors) == 1 and np.float32(np.sum(factors)) == 1.0 and np.sum(factors) != 1.0
    return 2.0 if almost else 1.0
