"""Reading demonstrations from files and writing them.

`read` takes CSV, Parquet, Arrow, JSON lines, NumPy archives, Minari and LeRobot; `write` is its inverse;
`from_episodes` takes episodes in memory.
"""

from simile.data.reading.datasets import from_episodes
from simile.data.reading.reader import read
from simile.data.reading.writer import write

__all__ = ["from_episodes", "read", "write"]
