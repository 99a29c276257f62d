"""Pictures to films: their size, H.264 by PyAV, and GIF and animated WebP by pillow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, BinaryIO

from simile._common import checks
from simile._common.needs import need
from simile._common.typing import AnyPath
from simile.camera.film.scene import PALETTES
from simile.errors import ArgumentError

Progress = Callable[[int, int], object]  # called with what is done, and what there is
Encoder = Callable[[BinaryIO, Iterator[Any], float], None]


def even_size(size: Any, *, step: int = 2, at_least: int = 16) -> tuple[int, int]:
    """Check the size of a film: multiples of `step`, for the colours of most films are stored at half the size."""
    try:
        width, height = (checks.whole_number(side, "size", at_least=at_least) for side in size)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"size must be (width, height) in pixels, {at_least} or more each; got {size!r}: try (1280, 720)"
        ) from error
    if width % step or height % step:
        raise ArgumentError(f"size must be even numbers; got {size!r}: try {(width + width % 2, height + height % 2)}")
    return width, height


def choose_encoder(path: AnyPath, rate: float) -> tuple[Encoder, float]:
    """Return what writes such a film, and how many frames it shows a second."""
    suffix = Path(path).suffix.lower()
    if suffix == ".mp4":
        need("av", "watch_video to .mp4")
        return _encode_mp4, rate
    if suffix == ".gif":
        return encode_gif, min(rate, 25.0)
    if suffix == ".webp":
        return encode_webp, min(rate, 12.5)  # each of its pictures is kept whole: more of them make large files
    raise ArgumentError(f"path (--out) must end in .mp4, .gif or .webp; got {os.fspath(path)!r}")


def _encode_mp4(file: BinaryIO, pictures: Iterator[Any], rate: float) -> None:
    av = need("av", "watch_video to .mp4")
    codec, options = h264(av)
    with av.open(file, "w", format="mp4") as container:
        stream = None
        for image in pictures:
            if stream is None:
                stream = container.add_stream(codec, rate=Fraction(rate).limit_denominator(1001), options=options)
                stream.width, stream.height = image.size
                stream.pix_fmt = "yuv420p"
            container.mux(stream.encode(av.VideoFrame.from_image(image)))
        container.mux(stream.encode() if stream is not None else [])


def h264(av: Any) -> tuple[str, dict[str, str]]:
    """Return the encoder to use and its options: H.264 where FFmpeg was built with it, or else MPEG-4."""
    if "libx264" in av.codecs_available:
        return "libx264", {"preset": "superfast", "crf": "20"}
    return "mpeg4", {"qscale": "3"}


def encode_gif(file: BinaryIO, pictures: Iterator[Any], rate: float) -> None:
    """Write pictures as a GIF, which knows hundredths of a second and 256 colours."""
    Image = need("PIL.Image", "watch_video to .gif")
    first = next(pictures)
    # One palette for all, so that nothing flickers: every colour that we draw with (a ball may come later than the
    # first picture), and the mixtures that the first picture shows.
    pure = b"".join(bytes.fromhex(colour[1:]) for colour in _every_colour())
    mixed = bytes(first.quantize(128).getpalette())
    palette = Image.new("P", (1, 1))
    palette.putpalette((pure + mixed)[: 3 * 256])

    def quantize(image: Any) -> Any:
        return image.quantize(palette=palette, dither=Image.Dither.NONE)

    # Hundredths of a second are all that a GIF knows; whole ones are near enough for the eye.
    hundredths = max(round(100.0 / rate), 2)
    others = (quantize(image) for image in pictures)
    quantize(first).save(file, format="GIF", save_all=True, append_images=others, duration=10 * hundredths, loop=0)


def encode_webp(file: BinaryIO, pictures: Iterator[Any], rate: float) -> None:
    """Write pictures as an animated WebP, a small part of the size of a GIF; they are kept until the last."""
    first = next(pictures)
    milliseconds = round(1000.0 / rate)
    others = list(pictures)
    first.save(
        file, format="WEBP", save_all=True, append_images=others, duration=milliseconds, loop=0, quality=25, method=4
    )


def _every_colour() -> list[str]:
    colours: Any = PALETTES["light"]
    return ["#ffffff", *(c for entry in colours.values() for c in ([entry] if isinstance(entry, str) else entry))]
