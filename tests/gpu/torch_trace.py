#!/usr/bin/python3 -B
"""P16: the KV caches of a request trace as tensors of PyTorch that are copied when they grow.

    PYTORCH_CUDA_ALLOC_CONF=... torch_trace.py TRACE.csv REQUESTS LAYERS ROW_BYTES

prints one JSON object. A row is what a token has in one tensor.

The service is that of `membrane replay` where nothing waits (docs/replay.md): arrivals as in the
trace, the prompt's memory at once, then a token each thirtieth of a second. A sequence has a tensor
for each layer's keys and one for its values, as a runtime without virtual memory keeps them, of
whole chunks of tokens: at each end of a chunk a new one, a copy, and the old one goes. What is owned
is what the device has less, asked whenever something was allocated.
"""

import csv
import datetime
import heapq
import json
import sys

import torch

PLANES = 2  # keys and values
CHUNK_TOKENS = 256
PREFILL_RATE, DECODE_RATE = 8000.0, 30.0  # tokens a second
ARRIVAL, GROWTH, END = range(3)


def requests_of(path, count):
    with open(path, encoding="utf-8") as file:
        lines = list(csv.DictReader(file))[:count]
    times = [datetime.datetime.fromisoformat(line["TIMESTAMP"][:26]) for line in lines]
    for line, at in zip(lines, times):
        yield (at - times[0]).total_seconds(), int(line["ContextTokens"]), int(
            line["GeneratedTokens"])


def chunks_of(tokens):
    return -(-tokens // CHUNK_TOKENS)


class Sequence:
    """Tensors of so many chunks."""

    def __init__(self, model, chunks):
        self.row_bytes, self.chunks = model[1], chunks
        self.tensors = [self.make(chunks) for _ in range(model[0] * PLANES)]

    def make(self, chunks):
        return torch.empty(chunks * CHUNK_TOKENS * self.row_bytes, dtype=torch.uint8, device="cuda")

    def grow(self):
        self.chunks += 1
        for place, old in enumerate(self.tensors):
            new = self.make(self.chunks)
            new[:old.numel()].copy_(old)
            self.tensors[place] = new


class Service:
    def __init__(self, model):
        self.token_bytes = model[0] * PLANES * model[1]
        torch.empty(1, device="cuda")
        self.free_bytes = torch.cuda.mem_get_info()[0]
        self.owned_peak = self.live_peak = self.live_tokens = 0
        self.started = {}  # number: (when its tokens begin, tokens then, tokens at its end)

    def note(self, now):
        self.owned_peak = max(self.owned_peak, self.free_bytes - torch.cuda.mem_get_info()[0])
        tokens = sum(min(prompt + max(0, int((now - begin) * DECODE_RATE)), whole)
                     for begin, prompt, whole in self.started.values())
        self.live_peak = max(self.live_peak, tokens * self.token_bytes)


def events_of(requests):
    """A heap of (time, kind, number): all that allocates or gives back."""
    events = []
    for number, (at, prompt, output) in enumerate(requests):
        begin = at + prompt / PREFILL_RATE
        events.append((at, ARRIVAL, number))
        events.append((begin + output / DECODE_RATE, END, number))
        for chunk in range(chunks_of(prompt), chunks_of(prompt + output)):
            wanted = chunk * CHUNK_TOKENS + 1 - prompt
            events.append((begin + wanted / DECODE_RATE, GROWTH, number))
    heapq.heapify(events)
    return events


def serve(requests, model):
    """A model is its layers and the bytes of a row."""
    service, sequences = Service(model), {}
    events = events_of(requests)
    while events:
        now, kind, number = heapq.heappop(events)
        at, prompt, output = requests[number]
        if kind == ARRIVAL:
            sequences[number] = Sequence(model, chunks_of(prompt))
            service.started[number] = (at + prompt / PREFILL_RATE, prompt, prompt + output)
        elif kind == GROWTH:
            sequences[number].grow()
        else:
            service.note(now)
            del sequences[number], service.started[number]
            continue
        service.note(now)
    torch.cuda.synchronize()
    return service


def main():
    path, (count, *model) = sys.argv[1], map(int, sys.argv[2:5])
    service = serve(list(requests_of(path, count)), model)
    print(json.dumps({"owned_peak": service.owned_peak, "live_peak": service.live_peak}))


if __name__ == "__main__":
    main()
