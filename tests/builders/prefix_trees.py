"""A prefix tree that whole sequences are written into, as the engine's scheduler does."""

import numpy as np

from sandlot.model.engine.blocks import Blocks
from sandlot.model.engine.tree import BASE, PrefixTree


def spelled(ids) -> bytes:
    return np.asarray(ids, np.int32).tobytes()


class TreeWriter:
    """Puts whole sequences into a tree, and lets go of their blocks."""

    def __init__(self, blocks: int, eviction, size: int = 3) -> None:
        self.size = size
        self.blocks = Blocks(blocks)
        self.tree = PrefixTree(self.blocks, size, eviction)

    def write(self, ids: list[int], root: int = BASE) -> int:
        """How many of its tokens had to be computed."""
        match = self.tree.match(spelled(ids), root)
        held, node = list(match.blocks), match.node
        for block in held:
            self.blocks.hold(block)
        while node.depth < len(ids):
            if not self.blocks.num_free and not self.tree.evict():
                break
            block = self.blocks.take()
            child = self.tree.add(node, spelled(ids[node.depth : node.depth + self.size]), block)
            if child.block != block:
                self.blocks.hold(child.block)
                self.blocks.drop(block)
                block = child.block
            held.append(block)
            node = child
        self.tree.touch(node)
        for block in held:
            self.blocks.drop(block)
        return len(ids) - match.num_tokens
