"""Policies as files: a policy becomes a tree of plain values and some tensors, and these one safetensors file.

Nothing here knows policies: frozen dataclasses are walked field by field. `simile.storage` reads the files back.
"""
