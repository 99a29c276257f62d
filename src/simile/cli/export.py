"""`simile export`: a policy without Python."""

from __future__ import annotations

from pathlib import Path

import click

from simile.cli import options


@click.command(short_help="Write a policy as ONNX or as C.")
@options.policy_argument
@click.argument("out", type=click.Path(path_type=Path))
@click.option("--name", help="What the names in a C header begin with; the file's name by default.")
@options.policy_options
def export(policy: Path, out: Path, name: str | None, trust: tuple[str, ...], max_memory: float | None) -> None:
    """Write one step of POLICY to OUT: a graph where that ends in .onnx, a C99 header where it ends in .h.

    C is for forests and lines; ONNX takes networks too. Neither needs Python where it runs.
    """
    from simile.online.export import export_c, export_onnx

    if out.suffix not in (".h", ".onnx"):
        raise click.ClickException(f"OUT must end in .onnx or .h; got {out}")
    if name is not None and out.suffix == ".onnx":
        raise click.ClickException("--name is for C headers; a graph has no names of its own")
    loaded = options.load_policy(policy, trust, max_memory)
    click.echo(export_c(loaded, out, name) if out.suffix == ".h" else export_onnx(loaded, out))
