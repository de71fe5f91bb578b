#!/usr/bin/python3 -B
"""P15: what `torch.empty` and `del` cost through the library, against PyTorch's own allocator.

    torch_pairs.py LIBMEMBRANE-TORCH.SO PLUGIN     prints one row as `membrane bench` does

An allocator is chosen once a process, so each side is a process of its own; they take turns round
by round, in an order that is drawn, and neither does anything meanwhile. Every size takes its turn
in each round. PyTorch's allocator answers from its own cache; the library is called each time.
"""

import json
import os
import random
import subprocess
import sys
import time

SIZES = [512 << 2 * i for i in range(9)]  # 512 B to 32 MiB
PAIRS = 2000  # a round
ROUNDS = 31
WARM_UP_ROUNDS = 3
LIMIT_BYTES = 8 << 30
GOAL, FLOOR = 1.0, 0.9


def take_allocator(torch, path, plugin):
    import ctypes  # pylint: disable=import-outside-toplevel
    import torch.cuda.memory  # pylint: disable=import-outside-toplevel
    torch.cuda.memory.change_current_allocator(torch.cuda.memory.CUDAPluggableAllocator(
        path, "membrane_torch_alloc", "membrane_torch_free"))
    library = ctypes.CDLL(path)
    if library.membrane_torch_open(plugin.encode(), ctypes.c_uint64(LIMIT_BYTES)) != 0:
        sys.exit("the shim cannot open its plugin")
    torch.cuda.init()
    return library


def one_round(torch):
    start = time.perf_counter_ns()
    for i in range(PAIRS):
        block = torch.empty(SIZES[i % len(SIZES)], dtype=torch.uint8, device="cuda")
        del block
    return (time.perf_counter_ns() - start) / PAIRS


def serve(arguments):
    """A side: a round for each line that it reads."""
    import torch  # pylint: disable=import-outside-toplevel
    library = take_allocator(torch, *arguments) if arguments else None
    print("ready", flush=True)
    for _ in sys.stdin:
        print(one_round(torch), flush=True)
    torch.cuda.synchronize()
    del library
    os._exit(0)  # the allocator outlives PyTorch's own end


class Side:
    def __init__(self, *arguments):
        # pylint: disable=consider-using-with
        self.process = subprocess.Popen([sys.executable, "-B", __file__, "--serve", *arguments],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        universal_newlines=True)
        self.samples = []

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"a side ended with {self.process.wait()}")
        return line

    def round(self):
        self.process.stdin.write("round\n")
        self.process.stdin.flush()
        self.samples.append(float(self.line()))

    def figures(self):
        samples = sorted(self.samples[WARM_UP_ROUNDS:])
        return samples[len(samples) // 2], samples[-1 - len(samples) // 100]

    def end(self):
        self.process.stdin.close()
        if self.process.wait() != 0:
            sys.exit("a side failed at its end")


def row_of(ours, theirs):
    mine, mine_p99 = ours.figures()
    other, other_p99 = theirs.figures()
    value = other / mine
    return {"id": "P15", "what": "torch.empty + del, 512 B to 32 MiB mixed", "value": value,
            "unit": "x", "against": "PyTorch's own allocator", "ratio": value, "goal": GOAL,
            "floor": FLOOR,
            "verdict": "goal" if value >= GOAL else "floor" if value >= FLOOR else "below",
            "better": "higher", "median_unit": "ns", "median": mine, "p99": mine_p99,
            "against_median": other, "against_p99": other_p99, "rounds": ROUNDS, "calls": None,
            "against_calls": None, "owned_bytes": None, "against_owned_bytes": None, "others": [],
            "note": f"{PAIRS} pairs a round, each side a process; freed behind the stream"}


def main():
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2:])
    sides = [Side(*sys.argv[1:3]), Side()]
    for side in sides:
        side.line()
    order = random.Random(1)
    for _ in range(ROUNDS + WARM_UP_ROUNDS):
        for side in order.sample(sides, len(sides)):
            side.round()
    for side in sides:
        side.end()
    print(json.dumps([row_of(*sides)]))


if __name__ == "__main__":
    main()
