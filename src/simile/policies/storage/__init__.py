"""Policies as files: a policy becomes a tree of plain values and some tensors, and these one safetensors file.

`encoding` knows no policies: frozen dataclasses are walked field by field. `decoding` checks all before it builds.
"""
