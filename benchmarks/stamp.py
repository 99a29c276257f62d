"""Print the line that a file of numbers carries: the fingerprint of the code they are from, and what renews it.

python benchmarks/stamp.py learn games --renew "make accuracy"
"""

from __future__ import annotations

import argparse

from simile.experiments.fingerprint import PARTS, stamp

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="+", choices=list(PARTS), metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--renew", required=True, metavar="COMMAND")
    given = parser.parse_args()
    print(stamp(*given.parts, renew=given.renew))
