"""Policies without Python: one step of a policy as an ONNX graph, or as a C99 header that needs nothing else.

Exported is what a `Predictor` does in a frame: f, h, their mixture (Eq. 2), bounds and units. Its stages, clock and
gaps stay in Python.
"""

from simile.online.export.c99_header import export_c
from simile.online.export.onnx_step import export_onnx
from simile.online.export.subject import Exported

__all__ = ["Exported", "export_c", "export_onnx"]
