#!/usr/bin/python3
"""Writes the project's own sample trace, sample.jsonl, in the Mooncake format.

No request of it is from a recorded trace. The lengths follow quantiles of one, the share of reused
prefix blocks that of another; docs/sample-trace.md has the sources and the figures. The same seed
gives the same bytes on every machine: only random() of the generator, integer arithmetic and
linear interpolation are used.

    generate_sample.py              writes sample.jsonl beside this file
    generate_sample.py --check      compares with it instead; status 1 when they differ
    generate_sample.py --figures    prints the figures of docs/sample-trace.md
"""
import argparse
import json
import math
import pathlib
import random
import sys

SEED = 20231116
REQUESTS = 400
SPAN_MS = 180_000
BLOCK_TOKENS = 512

# (share of requests, tokens): quantiles of the Azure conversation trace of 2023.
PROMPT_QUANTILES = (
    (0.0, 2), (0.01, 29), (0.05, 181), (0.1, 207), (0.2, 387), (0.25, 396), (0.3, 403), (0.4, 703),
    (0.5, 1020), (0.6, 1071), (0.7, 1130), (0.75, 1189), (0.8, 1315), (0.9, 2735), (0.95, 4083),
    (0.99, 4142), (0.999, 6212), (1.0, 14050))
OUTPUT_QUANTILES = (
    (0.0, 7), (0.01, 16), (0.05, 41), (0.1, 54), (0.2, 77), (0.25, 85), (0.3, 91), (0.4, 103),
    (0.5, 129), (0.6, 177), (0.7, 384), (0.75, 395), (0.8, 400), (0.9, 424), (0.95, 451),
    (0.99, 601), (0.999, 954), (1.0, 1000))

# Most requests come in bursts, so that a budget of 1 GiB is reached: (begin, length, requests).
BURSTS = ((12_000, 3_000, 90), (75_000, 3_000, 140), (135_000, 3_000, 110))

# Blocks of the system prompt of each application, and its share of the requests.
APPLICATIONS = ((1, 0.70), (2, 0.20), (4, 0.10))

# A follow-up repeats the prompt of an earlier request of its conversation.
FOLLOW_UP_SHARE = 0.9
FOLLOW_UP_WITHIN_MS = 60_000


def interpolate(quantiles, share):
    """The tokens at `share` of the requests, linear between two quantiles."""
    for (low, at_low), (high, at_high) in zip(quantiles, quantiles[1:]):
        if share <= high:
            return round(at_low + (at_high - at_low) * (share - low) / (high - low))
    raise ValueError(share)


def shuffled(values, source):
    """Fisher and Yates' shuffle on random() alone: Random.shuffle may change between versions."""
    values = list(values)
    for i in range(len(values) - 1, 0, -1):
        j = int(source.random() * (i + 1))
        values[i], values[j] = values[j], values[i]
    return values


def draw_lengths(quantiles, source):
    """One length from the middle of each 1/REQUESTS of the distribution, in random order."""
    return shuffled(
        (interpolate(quantiles, (i + 0.5) / REQUESTS) for i in range(REQUESTS)), source)


def draw_arrivals(source):
    """Uniform within each burst and within the whole span, which is Poisson with those counts."""
    arrivals = [0]
    for begin, length, count in BURSTS:
        arrivals += [begin + int(source.random() * length) for _ in range(count)]
    while len(arrivals) < REQUESTS:
        arrivals.append(int(source.random() * SPAN_MS))
    return sorted(arrivals)


class Blocks:
    """Block ids: consecutive numbers in order of first use, as the Mooncake traces have them."""

    def __init__(self):
        self.next_id = 0
        self.systems = [None] * len(APPLICATIONS)

    def fresh(self, count):
        ids = list(range(self.next_id, self.next_id + count))
        self.next_id += count
        return ids

    def system(self, application):
        """The ids of an application's system prompt. All begin with one common block."""
        if self.systems[application] is None:
            common = [] if application == 0 else self.system(0)
            count = APPLICATIONS[application][0] - len(common)
            self.systems[application] = common + self.fresh(count)
        return self.systems[application]


def choose_application(source):
    at = source.random()
    for application, (_, share) in enumerate(APPLICATIONS):
        at -= share
        if at < 0:
            return application
    return len(APPLICATIONS) - 1


def choose_parent(earlier, arrival, prompt, source):
    """An earlier request whose prompt and output fit into this prompt and that has no follow-up."""
    fitting = [
        request for request in earlier
        if not request["followed"] and request["arrival"] >= arrival - FOLLOW_UP_WITHIN_MS
        and request["prompt"] >= BLOCK_TOKENS
        and request["prompt"] + request["output"] < prompt]
    if not fitting or source.random() >= FOLLOW_UP_SHARE:
        return None
    return fitting[int(source.random() * len(fitting))]


def head_of(earlier, arrival, prompt, blocks, source):
    """The ids with which a prompt begins that others have too. Only whole blocks are shared."""
    whole = prompt // BLOCK_TOKENS
    parent = choose_parent(earlier, arrival, prompt, source)
    if parent is not None:
        parent["followed"] = True
        return parent["ids"][:parent["prompt"] // BLOCK_TOKENS]
    application = choose_application(source)
    return blocks.system(application)[:whole] if whole else []


def generate():
    source = random.Random(SEED)
    prompts = draw_lengths(PROMPT_QUANTILES, source)
    outputs = draw_lengths(OUTPUT_QUANTILES, source)
    arrivals = draw_arrivals(source)
    blocks = Blocks()
    requests = []
    for arrival, prompt, output in zip(arrivals, prompts, outputs):
        ids = list(head_of(requests, arrival, prompt, blocks, source))
        ids += blocks.fresh(-(-prompt // BLOCK_TOKENS) - len(ids))
        requests.append({
            "arrival": arrival, "prompt": prompt, "output": output, "ids": ids, "followed": False})
    return requests


def to_text(requests):
    return "".join(
        json.dumps({
            "timestamp": request["arrival"],
            "input_length": request["prompt"],
            "output_length": request["output"],
            "hash_ids": request["ids"]}) + "\n"
        for request in requests)


def reused_blocks(requests):
    """For each request, how many of its leading blocks an earlier request had."""
    seen = set()
    reused = []
    for request in requests:
        count = 0
        while count < len(request["ids"]) and request["ids"][count] in seen:
            count += 1
        seen.update(request["ids"])
        reused.append(count)
    return reused


def print_figures(requests):
    for name in ("prompt", "output"):
        values = sorted(request[name] for request in requests)
        quantiles = [values[math.ceil(share * REQUESTS) - 1] for share in
                     (0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)]
        print(f"{name}: mean {sum(values) / REQUESTS:.0f}, p5 p25 p50 p75 p90 p95 p99 max "
              + " ".join(str(value) for value in quantiles))
    reused = reused_blocks(requests)
    total = sum(len(request["ids"]) for request in requests)
    print(f"blocks {total}, reused {sum(reused)} ({sum(reused) / total:.1%})")
    print(f"requests that reuse nothing {sum(count == 0 for count in reused)}, one block "
          f"{sum(count == 1 for count in reused)}, more {sum(count > 1 for count in reused)}")
    print(f"span {requests[-1]['arrival'] / 1000:.1f} s, {len(requests)} requests")


def main():
    parser = argparse.ArgumentParser(description="Writes or checks the sample trace.")
    parser.add_argument("--check", action="store_true", help="compare with the file instead")
    parser.add_argument("--figures", action="store_true", help="print the figures of the trace")
    parser.add_argument("file", nargs="?", type=pathlib.Path,
                        default=pathlib.Path(__file__).with_name("sample.jsonl"))
    arguments = parser.parse_args()
    requests = generate()
    text = to_text(requests)
    if arguments.figures:
        print_figures(requests)
        return 0
    if not arguments.check:
        arguments.file.write_text(text, encoding="ascii")
        return 0
    if arguments.file.read_text(encoding="ascii") == text:
        return 0
    print(f"{arguments.file} is not what generate_sample.py writes; run it to write the file again",
          file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
