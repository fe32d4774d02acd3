"""A token check on the screen: counts, differences of log-probabilities, and faults."""

from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape

from sandlot.analysis.tokens.audit import TokenAudit

_SHOWN = 3
"""Maximum faults of each kind on the screen; `--json` has all."""


def as_json(audit: TokenAudit) -> dict[str, Any]:
    """The whole record, with the verdict and counts."""
    return {**msgspec.to_builtins(audit), "verdict": audit.verdict, "counts": audit.counts}


def print_audit(audit: TokenAudit) -> None:
    """Print a token check to stdout."""
    console = Console(highlight=False, soft_wrap=True)
    drifts = ", ".join(f"{count} {kind}" for kind, count in sorted(audit.drifts.items())) or "none"
    console.print(f"   traces  {audit.traces}, {audit.turns} turns, {audit.tokens} sampled tokens in {audit.rows} rows")
    console.print(f"    drift  {drifts}")
    if audit.without_ids:
        named = ", ".join(audit.without_ids[:_SHOWN]) + (", ..." if len(audit.without_ids) > _SHOWN else "")
        console.print(f"   no ids  [yellow]{len(audit.without_ids)} traces cannot be trained on[/]  [dim]{escape(named)}[/]")
    for place, found in audit.positions.items():
        if found.tokens:
            outside = f"  [yellow]{found.outside} outside[/]" if found.outside else ""
            sizes = f"mean {found.mean:.1e}  99.9% {found.p999:.1e}  largest {found.largest:.1e}  k3 {found.mean_k3:.1e}"
            console.print(f"{place:>9}  {found.tokens} tokens  {sizes}{outside}")
    for code, count in audit.counts.items():
        if code == "no_ids":
            continue
        console.print(f"[red]{code:>17}[/]  {count}")
        for fault in [fault for fault in audit.faults if fault.code == code][:_SHOWN]:
            console.print(f"{'':>17}  [dim]{escape(f'{fault.task}/{fault.rollout}, node {fault.node}: {fault.detail}')}[/]")
    looked = f"gate {audit.gate}" if audit.gate else "structure only; name the model with --model to check spelling and numbers"
    style = "green" if audit.verdict == "sound" else "red"
    console.print(f"  verdict  [{style}]{audit.verdict}[/]  [dim]{looked}[/]")
