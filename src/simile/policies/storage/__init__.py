"""Policies as files: a policy becomes a tree of plain values and some tensors, and these one safetensors file.

`encoding`, `foreign` (models of other libraries) and `files` write, and know no policies: frozen dataclasses are walked
field by field. `loading` reads by `decoding`, which takes apart (`fields`) and checks (`soundness`) before it builds.
"""
