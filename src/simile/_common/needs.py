"""Optional libraries, imported when something needs them, and what to install where they are missing."""

from __future__ import annotations

import importlib
from typing import Any

from simile.errors import ArgumentError, SimileError

# The extra that brings a library.
EXTRAS = {
    "adlfs": "abfs",
    "aiohttp": "remote",
    "av": "video",
    "click": "cli",
    "cloudpickle": "dask",
    "cv2": "vision",
    "dask": "dask",
    "distributed": "dask",
    "fsspec": "remote",
    "gcsfs": "gs",
    "h5py": "minari",
    "kloppy": "tracking",
    "matplotlib": "cli",
    "mido": "midi",
    "msgspec": "serve",
    "onnx": "export",
    "onnxruntime": "live",
    "onnxscript": "export",
    "onvif": "onvif",
    "optuna": "tune",
    "pandas": "frames",
    "picows": "serve",
    "PIL": "video",
    "prometheus_client": "serve",
    "pyarrow": "cli",
    "rich": "cli",
    "ruckig": "motion",
    "s3fs": "s3",
    "skops": "skops",
    "starlette": "studio",
    "tomli_w": "cli",
    "torch": "torch",
    "uvicorn": "studio",
    "uvloop": "serve",
    "websockets": "studio",
}


def need(module: str, what: str, *, extra: str | None = None, error: type[SimileError] = ArgumentError) -> Any:
    """Return an optional module, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        raise error(tell(module, what, extra)) from None


def tell(module: str, what: str = "this", extra: str | None = None) -> str:
    """Say that something needs a library, and how to install it."""
    package = module.partition(".")[0]
    return f"{what} needs {package}: pip install 'smooth-imitation[{extra or EXTRAS.get(package, 'cli')}]'"
