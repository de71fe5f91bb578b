"""A client of the example server whose requests come when they are due, whatever became of the ones
before (an open loop). It counts answers; it judges nothing."""

import asyncio
import json
import random
import time


class Answer:
    """What came back, and when it was asked for."""

    def __init__(self, asked_s, status, headers, body):
        self.asked_s = asked_s
        self.status = status
        self.headers = headers
        self.body = json.loads(body) if body else {}

    @property
    def retry_after_s(self):
        return int(self.headers["retry-after"])

    @property
    def cookie(self):
        return self.headers["set-cookie"].split(";")[0]


async def ask(stream, body, cookie=None):
    """One POST /generate on an open connection."""
    reader, writer = stream
    asked_s = time.monotonic()
    shown = f"Cookie: {cookie}\r\n" if cookie else ""
    text = json.dumps(body)
    writer.write(f"POST /generate HTTP/1.1\r\nHost: server\r\n{shown}"
                 f"Content-Length: {len(text)}\r\n\r\n{text}".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    headers = dict((name.lower(), value) for name, value in
                   (line.split(": ", 1) for line in head[1:] if line))
    answer = await reader.readexactly(int(headers["content-length"]))
    return Answer(asked_s, int(head[0].split()[1]), headers, answer)


BY_CONNECTION, BY_COOKIE, BY_NOTHING = WAYS = range(3)


class Client:
    """Asks once, and where it is told to come again, waits as long as Retry-After says and asks once
    more: on the same connection, on another with the cookie, or on another as if it were new."""

    def __init__(self, port, body, way, full):
        self.full = full
        self.port = port
        self.body = body
        self.way = way
        self.first = self.second = None

    async def connect(self):
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def run(self):
        stream = await self.connect()
        self.first = await ask(stream, self.body)
        if self.first.status == 429:
            self.full.set()
            if self.way != BY_CONNECTION:
                stream[1].close()
            await asyncio.sleep(self.first.retry_after_s)
            if self.way != BY_CONNECTION:
                stream = await self.connect()
            self.second = await ask(stream, self.body,
                                    self.first.cookie if self.way == BY_COOKIE else None)
        stream[1].close()


async def offer(port, body, rate_per_s, seconds, seed, full):
    """Clients at random moments (a Poisson process). Answers them and what they still do, when the
    last one has asked. `full`, an event, is set when the first of them is sent away."""
    moments = random.Random(seed)
    clients, runs = [], []
    due_s = time.monotonic()
    end_s = due_s + seconds
    while (due_s := due_s + moments.expovariate(rate_per_s)) < end_s:
        await asyncio.sleep(max(0, due_s - time.monotonic()))
        clients.append(Client(port, body, len(clients) % len(WAYS), full))
        runs.append(asyncio.ensure_future(clients[-1].run()))
    return clients, runs


async def read_stats(port):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /stats HTTP/1.1\r\nHost: server\r\nConnection: close\r\n\r\n")
    answer = await reader.read()
    writer.close()
    return json.loads(answer.split(b"\r\n\r\n", 1)[1])
