"""The trainer of a recipe: of all weights or of LoRA adapters, with a reference if the algorithm needs one."""

from sandlot.core.errors import ConfigError
from sandlot.core.types import derive_seed
from sandlot.model.nn.decoder import Decoder
from sandlot.model.nn.folder import empty_decoder
from sandlot.model.nn.lora import add_adapters
from sandlot.train.algorithms.algorithms import needs_reference
from sandlot.train.parallel.ranks import ALONE, Ranks
from sandlot.train.recipe import Recipe
from sandlot.train.trainer import Trainer


def build_trainer(decoder: Decoder, recipe: Recipe, ranks: Ranks = ALONE) -> Trainer:
    """The trainer of a recipe. Its reference has the initial weights; with LoRA these do not change, and the memory is shared."""
    reference = None
    if needs_reference(recipe.algorithm):
        reference = copy_decoder(decoder) if recipe.lora is None else _share_weights(decoder)
    if recipe.lora is not None:
        if recipe.lora > decoder.shape.hidden:
            raise ConfigError(
                f"recipe `{recipe.name}`: lora is {recipe.lora}, and `{recipe.model}` is {decoder.shape.hidden} wide: "
                "adapters of that rank are larger than the layers they adapt; give a smaller rank, or leave `lora` out"
            )
        add_adapters(decoder, recipe.lora, seed=derive_seed("adapters", recipe.seed))
    return Trainer(
        decoder,
        recipe.optimisation,
        critic=recipe.critic,
        reference=reference,
        temperature=recipe.sampling.temperature,
        ranks=ranks,
    )


def copy_decoder(decoder: Decoder) -> Decoder:
    """A copy of a decoder, to sample from while the original is trained."""
    other = Decoder(decoder.shape).to(device=decoder.embedding.weight.device, dtype=decoder.embedding.weight.dtype)
    other.load_state_dict(decoder.state_dict())
    return other


def _share_weights(decoder: Decoder) -> Decoder:
    """A decoder that shares the memory of another: for weights that do not change."""
    weight = decoder.embedding.weight
    other = empty_decoder(decoder.shape, weight.dtype, weight.device)
    other.load_state_dict(decoder.state_dict(), assign=True)
    return other.requires_grad_(requires_grad=False)
