"""Clients of `simile serve`: one context out, one action back, and what was lost on the way is counted.

>>> from simile.client import Client
>>> with Client("ws://127.0.0.1:8770/streams/camera-1") as camera:  # doctest: +SKIP
...     pan = camera.step(context)
"""

from simile.serving.client.asynchronous import AsyncClient
from simile.serving.client.blocking import Client
from simile.serving.client.operating import Operator, Seen
from simile.serving.client.protocol import Opened, ServiceError

__all__ = ["AsyncClient", "Client", "Opened", "Operator", "Seen", "ServiceError"]
