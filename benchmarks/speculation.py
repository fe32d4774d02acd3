"""Tokens per CPU-second with guesses from siblings, and without, in one process.

    make bench NAME=speculation
    make bench NAME=speculation ARGS="--device cuda"     on a GPU (needs torch, numpy and safetensors)

Groups of rollouts on chores of `drill`, group after group, as a run asks for them, of up to 4 turns. Nothing is run: a command
that reads a file gets its text, others no output. `rookie` has learned such chores; `smollm2` has not, so its siblings agree less
and seldom call the tool. One thread, and both ways in turn, because the machine has other work. The load of a GPU is another one:
see `speculation_cuda.py`.
"""

import argparse

from report import Report, publish

NAME = "speculation"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="tiny sizes, and the table is left alone: does it work?")
    parser.add_argument("--only", choices=("rookie", "smollm2"), help="one model, and the table is of it alone")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    flags = parser.parse_args()
    if flags.device == "cuda":
        from speculation_cuda import measured

        publish(Report(f"{NAME}-cuda", *measured()), write_table=True)
        return
    from speculation_cpu import measured_on_cpu  # a GPU machine may lack what this needs

    publish(Report(NAME, *measured_on_cpu(flags.only, small=flags.small)), write_table=not flags.small)


if __name__ == "__main__":
    main()
