"""The example server from outside: under load below and above its capacity, under a client that
hammers it, with what strangers send, and at its end."""

import asyncio
import collections
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
import urllib.error
import urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import load  # noqa: E402

SERVER, LIBRARY, PLUGIN, HEAP = (os.path.abspath(path) for path in sys.argv[1:5])
del sys.argv[1:5]

# A request is 1 MiB for 500 ms: 40 of them at once, 80 a second, so that neither the server nor
# this client needs a CPU of its own.
LIMIT_MIB = 40
SERVICE_S = 0.5
ASK = {"prompt_tokens": 448, "output_tokens": 64}
CAPACITY_PER_S = LIMIT_MIB / SERVICE_S


class Server:
    """The program as it would be installed, on a port that the kernel chooses."""

    def __init__(self, env):
        self.place = tempfile.TemporaryDirectory(prefix="server.",
                                                 dir=os.environ.get("TEST_TMPDIR"))
        os.chmod(self.place.name, 0o755)
        for file, name in ((LIBRARY, "libmembrane.so.0"), (PLUGIN, "libmembrane-host.so")):
            subprocess.run(["install", "-m", "644", file, os.path.join(self.place.name, name)],
                           check=True)
        env = dict(os.environ, LD_LIBRARY_PATH=self.place.name,
                   MEMBRANE_PLUGIN_PATH=self.place.name, **env)
        self.process = subprocess.Popen(
            [SERVER, "--port", "0", "--limit-mib", str(LIMIT_MIB), "--tokens-per-second", "128"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
        said = self.process.stdout.readline()
        match = re.fullmatch(r"listening on 127\.0\.0\.1:(\d+)\n", said)
        if match is None:
            raise AssertionError(said + self.process.communicate()[1])
        self.port = int(match[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def end(self):
        """Its status and what it printed, after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=30)
        self.place.cleanup()
        return self.process.returncode, out, err


class WithServer(unittest.TestCase):
    env = {}

    def setUp(self):
        self.server = Server(self.env)

    def tearDown(self):
        """Whatever was done to it, it ends cleanly and nothing is left."""
        self.assertEqual(self.server.end(),
                         (0, "at the end: claimed 0, charged 0, mapped 0 bytes\n", ""))

    def ask(self, path, data=None, headers=(), method=None):
        """Status, headers and body."""
        request = urllib.request.Request(self.server.url + path, data, dict(headers),
                                         method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read()

    def stats(self):
        return json.loads(self.ask("/stats")[2])

    def wrk(self, seconds):
        return ["wrk", "-t1", "-c120", f"-d{seconds}s", "--timeout", "20s", "-s",
                os.path.join(HERE, "hammer.lua"), self.server.url + "/generate"]

    def hammer(self, seconds):
        """wrk's counts of 200, 429, 503, other answers and broken connections."""
        done = subprocess.run(self.wrk(seconds), stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False, timeout=60)
        counts = re.search(r"^counts (\d+) (\d+) (\d+) (\d+) (\d+)$", done.stdout, re.MULTILINE)
        self.assertIsNotNone(counts, done.stdout)
        return [int(count) for count in counts.groups()]


class Load(WithServer):
    """An open loop: who was sent away waits Retry-After once, whatever it shows then."""

    def offer(self, rate, seconds, seed):
        """The clients when all are done; the figures when the first one was sent away, from when on
        the server has as much to do as it can (or never had), and when the last one asked."""
        async def whole():
            port, full = self.server.port, asyncio.Event()
            offering = asyncio.ensure_future(
                load.offer(port, ASK, rate * CAPACITY_PER_S, seconds, seed, full))
            filling = asyncio.ensure_future(full.wait())
            await asyncio.wait({offering, filling}, return_when=asyncio.FIRST_COMPLETED)
            filling.cancel()
            early = await load.read_stats(port)
            clients, runs = await offering
            late = await load.read_stats(port)
            await asyncio.gather(*runs)
            return clients, early, late
        clients, early, late = asyncio.run(whole())
        self.assertEqual({client.first.status for client in clients} - {200, 429}, set())
        return clients, early, late

    def test_below_capacity_under_one_percent_is_sent_away(self):
        clients, _, _ = self.offer(0.9, 6, seed=1)
        refused = sum(client.first.status == 429 for client in clients)
        print(f"0.9 of capacity: {refused} of {len(clients)} sent away")
        self.assertGreater(len(clients), 300)
        self.assertLess(refused, 0.01 * len(clients))

    def test_above_capacity_it_is_used_and_promises_are_kept(self):
        clients, early, late = self.offer(1.5, 7, seed=2)
        passed_s = late["uptime_seconds"] - early["uptime_seconds"]
        used = {name: (late[name] - early[name]) / (passed_s * late["limit_bytes"])
                for name in ("admitted_byte_seconds_total", "committed_byte_seconds_total")}
        waited = [client for client in clients if client.second is not None]
        kept = [[client.second.status == 200 for client in waited if client.way == way]
                for way in load.WAYS]
        print(f"1.5 of capacity: {used} used, {len(waited)} of {len(clients)} sent away; by way, "
              f"{[sum(served) for served in kept]} of {[len(served) for served in kept]} served "
              f"when they came again")
        self.assertGreaterEqual(used["admitted_byte_seconds_total"], 0.9)
        self.assertGreaterEqual(used["committed_byte_seconds_total"], 0.85)
        self.assertGreaterEqual(sum(map(sum, kept)), 0.8 * len(waited))
        for served in kept[:load.BY_NOTHING]:  # the last way is a guess
            self.assertGreater(len(served), 50)
            self.assertGreaterEqual(sum(served), 0.8 * len(served))
        # Whoever was not promised the same moment as another waited its own time.
        self.assertGreater(len({client.first.retry_after_s for client in waited}), 1)
        for client in waited:
            self.assertEqual(client.first.retry_after_s,
                             -(-client.first.body["retry_after_ms"] // 1000))


class Hammered(WithServer):
    def test_a_client_that_never_waits_gets_200_and_429_alone(self):
        served, sent_away, no_memory, others, broken = self.hammer(4)
        self.assertEqual((no_memory, others, broken), (0, 0, 0))
        self.assertGreater(served, 2 * CAPACITY_PER_S)
        self.assertGreater(sent_away, served)
        stats = self.stats()
        self.assertEqual((stats["no_memory_total"], stats["never_total"]), (0, 0))
        self.assertLessEqual(stats["peak_charged_bytes"], LIMIT_MIB << 20)
        # One connection has one place, however often it asks.
        self.assertLessEqual(stats["away"], 120)


class WithoutHeap(WithServer):
    env = {"LD_PRELOAD": HEAP}

    def test_lack_of_heap_is_503_and_the_server_lives_on(self):
        served, _, no_memory, others, _ = self.hammer(3)
        self.assertGreater(served, 0)
        self.assertGreater(no_memory, 0)
        self.assertEqual(others, 0)  # 500 above all
        statuses = collections.Counter()
        while statuses[200] < 20:  # once those that were there before are done
            statuses[self.ask_or_be_cut()] += 1
        self.assertEqual(set(statuses) - {200, 429, 503, None}, set())

    def ask_or_be_cut(self):
        """None: libmicrohttpd had no heap for the connection itself and has closed it."""
        try:
            return self.ask("/generate?prompt_tokens=1&output_tokens=1", b"")[0]
        except (http.client.HTTPException, OSError):
            return None


class Strangers(WithServer):
    def test_what_is_no_request_is_answered_as_what_it_is(self):
        good = b'{"prompt_tokens": 8, "output_tokens": 8}'
        for status, path, data, method in (
                (200, "/generate", good, "POST"),
                (200, "/generate?prompt_tokens=8&output_tokens=8", b"", "POST"),
                (400, "/generate", b"", "POST"),
                (400, "/generate", b"{", "POST"),
                (400, "/generate", b"[]", "POST"),
                (400, "/generate", b"\x00\xff", "POST"),
                (400, "/generate", b'{"prompt_tokens": 8}', "POST"),
                (400, "/generate", b'{"prompt_tokens": 8, "output_tokens": 0}', "POST"),
                (400, "/generate", b'{"prompt_tokens": -1, "output_tokens": 8}', "POST"),
                (400, "/generate", b'{"prompt_tokens": 1.5, "output_tokens": 8}', "POST"),
                (400, "/generate", b'{"prompt_tokens": "8", "output_tokens": 8}', "POST"),
                (400, "/generate", b'{"prompt_tokens": 8, "output_tokens": 8, "x": 1}', "POST"),
                (400, "/generate", b'{"prompt_tokens": 99999999999999999999, "output_tokens": 8}',
                 "POST"),
                (400, "/generate?prompt_tokens=8&output_tokens=8x", b"", "POST"),
                (400, "/generate?prompt_tokens=8&output_tokens=", b"", "POST"),
                (422, "/generate", b'{"prompt_tokens": 8192, "output_tokens": 1}', "POST"),
                (422, "/generate", b'{"prompt_tokens": 9223372036854775807, "output_tokens": 9}',
                 "POST"),
                (413, "/generate", b" " * 4097, "POST"),
                (405, "/generate", None, "GET"),
                (405, "/stats", b"", "POST"),
                (405, "/metrics", None, "DELETE"),
                (404, "/", None, "GET"),
                (404, "/generate/", good, "POST")):
            answer = self.ask(path, data, method=method)
            self.assertEqual(answer[0], status, (path, data, answer[2]))
            if status in (400, 404, 413, 422):
                self.assertEqual(list(json.loads(answer[2])), ["error"])

    def test_a_body_of_unsaid_length_is_bounded(self):
        with socket.create_connection(("127.0.0.1", self.server.port), timeout=30) as stream:
            stream.sendall(b"POST /generate HTTP/1.1\r\nHost: x\r\n"
                           b"Transfer-Encoding: chunked\r\n\r\n")
            with self.assertRaises(OSError):
                while True:
                    stream.sendall(b"1000\r\n" + b" " * 4096 + b"\r\n")

    def test_a_place_that_nobody_was_given_is_none(self):
        for place in ("0123456789abcdef", "0" * 16, "x", "f" * 17):
            status, _, _ = self.ask("/generate?prompt_tokens=8&output_tokens=8&place=" + place, b"")
            self.assertEqual(status, 200)
        self.assertEqual(self.stats()["returned_total"], 0)

    def test_metrics_are_what_the_stats_are(self):
        metrics = self.ask("/metrics")[2].decode()
        for name in self.stats():
            self.assertRegex(metrics, rf"(?m)^# TYPE membrane_server_{name} (gauge|counter)\n"
                                      rf"membrane_server_{name} [0-9.e+-]+$")


class AtTheEnd(WithServer):
    def test_clients_that_run_stand_or_are_gone_leave_nothing(self):
        text = json.dumps(dict(ASK, output_tokens=2000))  # longer than the server waits at its end
        head = f"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: {len(text)}\r\n\r\n"
        streams = [socket.create_connection(("127.0.0.1", self.server.port), timeout=30)
                   for _ in range(4)]
        for stream in streams:
            stream.sendall((head + text).encode())
        while self.stats()["running"] < len(streams):
            pass
        for stream in streams[:2]:
            stream.close()
        with subprocess.Popen(self.wrk(20), stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as wrk:
            while self.stats()["standing"] == 0:
                pass
            self.tearDown()
            wrk.kill()
        for stream in streams[2:]:
            self.assertEqual(stream.recv(12), b"HTTP/1.1 503")
            stream.close()
        self.setUp()  # for the tear-down


if __name__ == "__main__":
    unittest.main()
