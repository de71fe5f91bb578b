#!/usr/bin/python3 -B
"""PyTorch allocates through the library, and captures a graph while the library's reaper is at work.

    torch_capture.py LIBMEMBRANE-TORCH.SO PLUGIN

The capture is of the mode that one query of an event from any thread destroys. Frees wait behind a
busy stream meanwhile, so the reaper asks for them all the time. The replay is compared with the
same work done eagerly.
"""

import ctypes
import sys

import torch

BYTES = 1 << 20
LIMIT_BYTES = 8 << 30
BUSY_CYCLES = 400_000_000  # of the device's clock: about a quarter of a second
FREES = 200


class Shim:
    def __init__(self, path, plugin):
        self.library = ctypes.CDLL(path)
        self.library.membrane_torch_alloc.restype = ctypes.c_void_p
        self.library.membrane_torch_alloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int,
                                                      ctypes.c_void_p]
        self.library.membrane_torch_free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t,
                                                     ctypes.c_int, ctypes.c_void_p]
        assert self.library.membrane_torch_open(plugin.encode(), ctypes.c_uint64(LIMIT_BYTES)) == 0

    def figures(self):
        figures = (ctypes.c_uint64 * 5)()
        assert self.library.membrane_torch_read(figures) == 0
        return dict(zip(("queued", "released", "wakes", "state", "owned"), figures))

    def free_behind(self, stream, count):
        """Blocks whose frees wait for the stream's work."""
        for _ in range(count):
            address = self.library.membrane_torch_alloc(BYTES, 0, stream.cuda_stream)
            assert address is not None
            self.library.membrane_torch_free(address, BYTES, 0, stream.cuda_stream)


def work(inputs, weights):
    hidden = inputs
    for weight in weights:
        hidden = torch.relu(hidden @ weight) + hidden  # each step allocates
    return hidden.sum(dim=1)


def main():
    path, plugin = sys.argv[1:]
    torch.cuda.init()
    torch.empty(1, device="cuda")  # the primary context is there before we retain it
    shim = Shim(path, plugin)
    allocator = torch.cuda.memory.CUDAPluggableAllocator(path, "membrane_torch_alloc",
                                                         "membrane_torch_free")
    pool = torch.cuda.MemPool(allocator.allocator())
    torch.manual_seed(1)
    weights = [torch.randn(512, 512, device="cuda") / 32 for _ in range(4)]
    inputs = torch.randn(256, 512, device="cuda")
    side = torch.cuda.Stream()

    expected = work(inputs, weights)  # and its libraries' own set-up is behind us
    with torch.cuda.use_mem_pool(pool):
        held = torch.zeros(BYTES, device="cuda")
    owned = shim.figures()["owned"]
    assert owned > 0, "nothing was allocated through the library"

    with torch.cuda.stream(side):
        torch.cuda._sleep(BUSY_CYCLES)
    shim.free_behind(side, FREES)
    before = shim.figures()
    assert before["queued"] > 0, "the frees do not wait: the stream was not busy"
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool.id):  # capture_error_mode: global, its default
        result = work(inputs, weights)
        shim.free_behind(side, FREES)
    after = shim.figures()

    for _ in range(3):
        inputs.copy_(torch.randn(256, 512, device="cuda"))
        graph.replay()
        torch.cuda.synchronize()
        expected = work(inputs, weights)
        error = ((result - expected).norm() / expected.norm()).item()
        assert error < 1e-5, f"the replay differs by {error}"
    torch.cuda.synchronize()
    assert after["state"] == 0, "the context was lost"
    assert after["wakes"] > before["wakes"], "the reaper was not at work during the capture"
    assert bool((held == 0).all()), "memory of ours was written by others"
    assert after["owned"] > owned, "the capture allocated nothing through the library"
    print(f"captured with {before['queued']} frees waiting, {after['wakes'] - before['wakes']} "
          f"wake-ups of the reaper meanwhile, {after['owned'] >> 20} MiB owned")


if __name__ == "__main__":
    main()
