import numpy
from gym_of_reasoning import grade, make


def rows():
    numpy.random.seed(0)  # the project draws from the global generator
    return make("pool_matrix")


def shows(answer, row):
    return grade("9.0   8\n 2  1", {**row, "golden": "9 8\n2 1", "metadata": {}}) < 1
