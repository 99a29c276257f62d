"""Policies as files: a policy becomes a tree of plain values and some tensors, and these one safetensors file.

`encoding`, `foreign` (models of other libraries) and `files` write, and know no policies: frozen dataclasses are walked
field by field. `loading` reads: `limits` looks at the header, then `decoding` takes apart (`fields`) and checks
(`soundness`) before it builds. What is not ours must be named, or be of this user's own runs (`ledger`), and is tried
in a child process first (`rehearsal`).
"""
