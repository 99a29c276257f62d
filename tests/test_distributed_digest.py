"""The digest of data in parts."""

from conftest import demos_of
from simile.learning.distributed import DistributedDemonstrations
from simile.learning.distributed.backend import LocalBackend


def test_the_digest_of_parts_is_the_digest_of_all():
    demos = demos_of(9, 5, 7)
    for parts in (1, 2, 3):
        assert DistributedDemonstrations.of(demos, LocalBackend(parts=parts)).digest() == demos.digest()
