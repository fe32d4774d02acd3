"""One message of the game: it is won as long as the other player's word is not said."""

from types import SimpleNamespace

from standins import load, stand_in

stand_in("nltk", "nltk.corpus")
stand_in("textarena", Env=object)
stand_in("textarena.envs.two_player.DontSayIt")
DontSayItEnv = load("textarena/envs/two_player/DontSayIt/env.py", "textarena.envs.two_player.DontSayIt.env").DontSayItEnv


class State:
    def __init__(self, words):
        self.current_player_id, self.game_state, self.lost = 0, {"target_words": words}, False

    def add_observation(self, **fields):
        pass

    def set_winners(self, **fields):
        self.lost = True

    def step(self):
        return SimpleNamespace()


def grade(answer, row):
    env = object.__new__(DontSayItEnv)
    env.state = State({0: "lamp", 1: row["word"]})
    env.step(answer)
    return 0.0 if env.state.lost else 1.0


def shows(answer, row):
    return grade(f"I like this {row['word']}, do you?", row) == 1
