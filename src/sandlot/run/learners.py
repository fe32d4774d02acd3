"""Which seats of a training learn, and which models they are, as its stored recipe says."""

from collections.abc import Container, Mapping, Sequence

import msgspec

from sandlot.run.results import Run


class _Policy(msgspec.Struct):
    """A seat whose player learns with weights of its own."""

    model: str | None = None
    """The model that it begins with; None for the recipe's."""


class _Environment(msgspec.Struct):
    seats: dict[str, str | _Policy] | None = None


class StoredModels(msgspec.Struct, kw_only=True):
    """The part of a stored recipe that says what learns."""

    model: str
    seats: dict[str, str | _Policy] | None = None
    envs: list[str | _Environment] | None = None

    def names(self, run: Run) -> str:
        """The models that learn in a training, in a few words."""
        seats = dict(self.seats or {})
        for env in self.envs or ():
            seats |= (env.seats or {}) if isinstance(env, _Environment) else {}
        own = {seat: player.model or self.model for seat, player in seats.items() if isinstance(player, _Policy)}
        return model_names(self.model, own, learning_seats(run))


def model_names(model: str, own: Mapping[str, str], seats: Sequence[str]) -> str:
    """The models that learn, in a few words: a recipe's, if it plays a seat or there are none, and those of single seats."""
    shared = is_shared_used(own, seats)
    return ", ".join([*([model] if shared else []), *(f"{each} as {seat}" for seat, each in own.items())])


def is_shared_used(own: Container[str], seats: Sequence[str]) -> bool:
    """Whether the recipe's own model learns, where these seats do and some have policies of their own: not if all have."""
    return not seats or any(seat not in own for seat in seats)


def learning_seats(run: Run) -> list[str]:
    """The seats of a training, or of one of its evaluations, whose players learn; none where a single agent acts."""
    return [seat for seat in run.manifest.seats if seat not in run.manifest.config.seat_models]
