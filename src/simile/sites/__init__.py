"""Where Algorithm 1 finds its data: at hand, or in parts that lie elsewhere."""

from simile.sites.choosing import (
    AnyDemonstrations,
    check_space,
    extremes,
    judged,
    placed,
    resolved,
    site_of,
    standardized,
    units_for,
)
from simile.sites.demonstrations import SpreadDemonstrations
from simile.sites.site import Site
from simile.sites.spread import check_spreadable

__all__ = [
    "AnyDemonstrations",
    "Site",
    "SpreadDemonstrations",
    "check_space",
    "check_spreadable",
    "extremes",
    "judged",
    "placed",
    "resolved",
    "site_of",
    "standardized",
    "units_for",
]
