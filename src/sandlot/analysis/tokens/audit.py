"""Checks that the stored tokens of a run are those that a trainer would condition on.

Structure is always checked; spelling with the model's renderer; numbers by computing every log-probability again with the
trainer's forward pass, at the sampling settings of the run. Nothing here imports torch: the forward pass is an argument.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from sandlot.analysis.tokens.faults import FaultClass, FaultCode, TokenFault, structure_faults
from sandlot.analysis.tokens.numbers import (
    OTHER_KERNELS,
    SAME_CODE,
    Differences,
    Logprobs,
    MeasuredPath,
    Tolerance,
    measure,
    number_faults,
    positions,
)
from sandlot.analysis.tokens.spelling import Decode, spelling_faults
from sandlot.core.errors import ConfigError, boundary
from sandlot.core.ports.model import Renderer
from sandlot.core.tokens import exact_leaves
from sandlot.core.trace import Trace
from sandlot.run.results import Run

_GATES = {gate.name: gate for gate in (SAME_CODE, OTHER_KERNELS)}


class FoundFault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault and its place."""

    task: str
    rollout: int
    node: int
    code: FaultCode
    found_by: FaultClass
    detail: str


class TokenAudit(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a token check."""

    traces: int
    turns: int
    tokens: int
    """Sampled tokens."""
    rows: int
    """Paths that cover every sampled token once; a healthy run has one per trace."""
    drifts: dict[str, int]
    """Recorded drifts by kind."""
    without_ids: tuple[str, ...]
    """Traces that cannot be trained on, as `TASK/ROLLOUT`."""
    faults: tuple[FoundFault, ...]
    gate: str | None = None
    """The tolerance for the numbers; None if they were not computed again."""
    positions: dict[str, Differences] = {}
    """By position in a turn: `first`, `inside`, `last`, and `all`."""

    @property
    def verdict(self) -> str:
        """`sound`; or `broken boundary`, `broken turn`, `numerics`, `spelling`, `structure` (the most serious); or `no ids`."""
        codes = {fault.code for fault in self.faults if fault.code is not FaultCode.NO_IDS}
        by_number = {FaultCode.BOUNDARY: "broken boundary", FaultCode.TURN: "broken turn", FaultCode.NUMERICS: "numerics"}
        for code, name in by_number.items():
            if code in codes:
                return name
        if codes:
            found = {fault.found_by for fault in self.faults if fault.code in codes}
            return "structure" if FaultClass.STRUCTURE in found else "spelling"
        return "no ids" if self.tokens == 0 else "sound"

    @property
    def counts(self) -> dict[str, int]:
        """Faults by code."""
        return dict(Counter(fault.code.value for fault in self.faults))


def audit_tokens(
    traces: Iterable[Trace],
    *,
    renderer: Renderer | None = None,
    decode: Decode = repr,
    stop_texts: Sequence[str] = (),
    logprobs: Logprobs | None = None,
    gate: Tolerance = SAME_CODE,
) -> TokenAudit:
    """Check traces with all the means given. `decode` makes ids readable."""
    tally = _Tally()
    for trace in traces:
        faults = structure_faults(trace)
        if renderer is not None and not any(fault.code is FaultCode.TORN for fault in faults):
            faults += spelling_faults(trace, renderer, decode, stop_texts)
        tally.add(trace, faults)
        if logprobs is not None and not _lengths_broken(faults):
            tally.paths += measure(trace, logprobs)
    return tally.audit(gate if logprobs is not None else None)


def check_tokens(run: Run, model: str | None = None, *, gate: str | None = None) -> TokenAudit:
    """Check the stored tokens of a run: lengths, masks, versions, branches; with a model also spelling and log-probabilities.

    - `run`: the stored run.
    - `model`: the model it was sampled from, on this machine: `hf:FOLDER`, `smollm2`, `rookie`. Default: check structure only.
    - `gate`: how close the log-probabilities must be. `fp32`: sampled by the same code in fp32. `bf16`: by other kernels, or in
      bf16. Default: `fp32` if the traces (else the folder) say fp32 and our own engine sampled them, else `bf16`.

    ```python
    import sandlot
    from sandlot.analysis.tokens.audit import check_tokens

    run = sandlot.run("arithmetic", "rookie", rollouts=2)
    assert check_tokens(run).verdict == "sound"
    ```
    """
    if gate is not None and gate not in _GATES:
        raise ConfigError(f"no gate `{gate}`; there are: {', '.join(_GATES)}")
    if model is None:
        return audit_tokens(run)
    from sandlot.model.engine.weights import model_folder  # noqa: PLC0415 - not needed without a model
    from sandlot.model.render.open import open_renderer  # noqa: PLC0415 - as above

    folder = model_folder(model)
    renderer = open_renderer(folder)
    from sandlot.model.engine.logprobs import folder_logprobs, sampled_in_fp32  # noqa: PLC0415 - torch is imported after all refusals

    sampled_by = run.manifest.config.model
    sampling = sampled_by.sampling
    with boundary(ConfigError, f"the tokens of {run.path} with model `{model}`"):
        if gate is None:
            foreign = sampled_by.spec.startswith(("sandlot:", "vllm:", "sglang:"))
            types = _number_types(run)
            exact = types == {"float32"} if types else sampled_in_fp32(folder)
            gate = (SAME_CODE if exact and not foreign else OTHER_KERNELS).name
        logprobs = folder_logprobs(folder, temperature=sampling.temperature, top_p=sampling.top_p, top_k=sampling.top_k)
        return audit_tokens(
            run,
            renderer=renderer,
            decode=renderer.tokenizer.decode,
            stop_texts=sampling.stop,
            logprobs=logprobs,
            gate=_GATES[gate],
        )


def _number_types(run: Run) -> set[str]:
    """The number types of the first rollout with turns; empty if its engine does not report them."""
    traces = (run.trace(row.task, row.rollout) for row in run.rows)
    first = next((trace for trace in traces if trace.num_turns), None)
    return {node.dtype for node in first.turns() if node.dtype} if first else set()


def _lengths_broken(faults: Sequence[TokenFault]) -> bool:
    """True if columns have different lengths: then tokens cannot be compared one by one."""
    broken = {FaultCode.TORN, FaultCode.LOGPROBS_LENGTH, FaultCode.MASK_LENGTH, FaultCode.VERSIONS_SUM}
    return any(fault.code in broken for fault in faults)


class _Tally:
    def __init__(self) -> None:
        self.num_traces = self.num_turns = self.num_tokens = self.num_rows = 0
        self.drifts: Counter[str] = Counter()
        self.without_ids: list[str] = []
        self.faults: list[FoundFault] = []
        self.paths: list[MeasuredPath] = []

    def add(self, trace: Trace, faults: Sequence[TokenFault]) -> None:
        """Count one trace."""
        self.num_traces += 1
        self.num_turns += trace.num_turns
        self.num_tokens += sum(len(node.tokens) for node in trace.turns() if node.tokens)
        self.num_rows += sum(1 for _ in exact_leaves(trace))
        self.drifts.update(str(event.detail.get("kind")) for event in trace.events if event.kind == "drift")
        if any(fault.code is FaultCode.NO_IDS for fault in faults):
            self.without_ids.append(f"{trace.task}/{trace.rollout}")
        self.faults += (_found(trace.task, trace.rollout, fault) for fault in faults)

    def audit(self, gate: Tolerance | None) -> TokenAudit:
        """The result for all traces so far."""
        off = number_faults(self.paths, gate) if gate else []
        return TokenAudit(
            traces=self.num_traces,
            turns=self.num_turns,
            tokens=self.num_tokens,
            rows=self.num_rows,
            drifts=dict(self.drifts),
            without_ids=tuple(self.without_ids),
            faults=(*self.faults, *(_found(path.task, path.rollout, fault) for path, fault in off)),
            gate=gate.name if gate else None,
            positions=positions(self.paths) if gate else {},
        )


def _found(task: str, rollout: int, fault: TokenFault) -> FoundFault:
    return FoundFault(task=task, rollout=rollout, node=fault.node, code=fault.code, found_by=fault.found_by, detail=fault.detail)
