"""The instrument: sends requests, stamps every read of their streams, and knows how late it was itself.

async with Client() as client:
    exchanges = await run_wave(client, [ChatRequest(url, body) for body in bodies])
for exchange in exchanges:
    reading = read_exchange(exchange)
    row = record(key, exchange, engine.read_usage(reading.final), reading=reading)
"""

from kvantage.client.client import Client
from kvantage.client.connection import Progress
from kvantage.client.crew import Crew, Watch
from kvantage.client.exchange import Exchange
from kvantage.client.lag import LagProbe
from kvantage.client.load import Senders, watching
from kvantage.client.record import record
from kvantage.client.request import ChatRequest, prepare
from kvantage.client.schedule import constant, poisson, run_closed, run_open, run_wave
from kvantage.client.stream import StreamReading, read_exchange
from kvantage.client.timing import StreamTiming, chunk_gaps, decode_rate, time_stream
from kvantage.client.workers import LoadWorkers

__all__ = [
    "ChatRequest",
    "Client",
    "Crew",
    "Exchange",
    "LagProbe",
    "LoadWorkers",
    "Progress",
    "Senders",
    "StreamReading",
    "StreamTiming",
    "Watch",
    "chunk_gaps",
    "constant",
    "decode_rate",
    "poisson",
    "prepare",
    "read_exchange",
    "record",
    "run_closed",
    "run_open",
    "run_wave",
    "time_stream",
    "watching",
]
