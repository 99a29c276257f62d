"""Where Algorithm 1 finds its data: at hand, or in parts that lie elsewhere."""

from simile.learning.distributed.access import Site
from simile.learning.distributed.choosing import (
    AnyDemonstrations,
    check_space,
    extremes,
    outcome,
    placed,
    resolved,
    site_of,
    standardized,
)
from simile.learning.distributed.demonstrations import SpreadDemonstrations
from simile.learning.distributed.remote import check_spreadable

__all__ = [
    "AnyDemonstrations",
    "Site",
    "SpreadDemonstrations",
    "check_space",
    "check_spreadable",
    "extremes",
    "outcome",
    "placed",
    "resolved",
    "site_of",
    "standardized",
]
