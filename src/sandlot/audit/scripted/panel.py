"""The probes of this layer."""

from sandlot.audit.case import Probe

PROBES: tuple[Probe, ...] = ()
