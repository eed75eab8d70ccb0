"""The looks at devices and machines while a cell ran: which tell of its speed, and the energy they add to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from kvantage.analysis.cells import Cell
from kvantage.core.columns import Bools, Floats, Ints, RequestColumns, StudyData
from kvantage.core.reading import Reading
from kvantage.core.telemetry import MACHINE, WatchedDevice, WatchedHost

GRACE_S = 1.0
"""A clock needs less than that to come up from idle, and more to fall back; looks within it, after work
began, tell of the ramp."""
LONG_PREFILL_S = 1.0
"""While a prompt is read for longer than that, a device draws other power and may run at another clock."""
TAKEN_BYTES = 256 * 2**20
"""A device serves when the memory in use on it grew by so much since before the server was started."""
WIDEST_GAP_S = 5.0
"""Power is not carried over a longer time without a look."""
FEWEST_LOOKS = 2
NANO = 1e-9


@dataclass(frozen=True)
class Looks:
    """One device (or a machine, where `device` is MACHINE), all of its looks in the cell's boot.

    `serves` is True for a device whose memory the server took, and where that cannot be told.
    """

    host: str
    device: str
    name: str
    serves: bool
    at_ns: Ints
    sm_mhz: Floats
    power_w: Floats
    temperature_c: Floats
    reasons: Ints
    memory_used_bytes: Floats
    cpu_mhz: Floats
    load: Floats
    memory_available_bytes: Floats

    @property
    def label(self) -> str:
        """`GPU 0 of spark1`, or the machine's name."""
        return f"GPU {self.device} of {self.host}" if self.device != MACHINE else self.host


@dataclass(frozen=True)
class CellLooks:
    """What was looked at while a cell ran: `start_ns` and `end_ns` are its first send and last answer's end,
    `tokens` its output. Moments are on the client's clock.
    """

    each: tuple[Looks, ...]
    hosts: tuple[WatchedHost, ...]
    start_ns: int
    end_ns: int
    tokens: float
    sent_ns: Ints
    first_ns: Ints
    ended_ns: Ints

    @property
    def devices(self) -> tuple[Looks, ...]:
        """The devices that serve."""
        return tuple(one for one in self.each if one.device != MACHINE and one.serves)

    @property
    def machines(self) -> tuple[Looks, ...]:
        """The machines themselves."""
        return tuple(one for one in self.each if one.device == MACHINE)

    @cached_property
    def _busy(self) -> tuple[Ints, Ints]:
        """Starts and ends of the times in which at least one request is at work; pauses of less than a second
        are work, since no clock falls within them.
        """
        order = np.argsort(self.sent_ns, kind="stable")
        sent, ended = self.sent_ns[order], np.maximum.accumulate(self.ended_ns[order])
        opens = np.concatenate(([True], sent[1:] - ended[:-1] > GRACE_S / NANO))
        starts = sent[opens]
        ends = ended[np.concatenate((np.flatnonzero(opens)[1:] - 1, [len(sent) - 1]))]
        return starts, ends

    def inside(self, at_ns: Ints) -> Bools:
        """From the first send to the end of the last answer."""
        return np.asarray((at_ns >= self.start_ns) & (at_ns <= self.end_ns))

    def working(self, at_ns: Ints) -> Bools:
        """Requests are at work, and have been for a second: how a clock rises from idle is left out."""
        starts, ends = self._busy
        place = np.searchsorted(starts, at_ns, side="right") - 1
        held = place >= 0
        place = np.maximum(place, 0)
        since = at_ns - starts[place] >= GRACE_S / NANO
        return np.asarray(held & since & (at_ns <= ends[place]))

    def steady(self, at_ns: Ints) -> Bools:
        """Requests are at work, and no long prompt is being read."""
        first = np.where(self.first_ns >= 0, self.first_ns, self.ended_ns)
        long = (first - self.sent_ns) * NANO >= LONG_PREFILL_S
        sent, until = self.sent_ns[long], first[long]
        opened = np.searchsorted(np.sort(sent), at_ns, side="right")
        closed = np.searchsorted(np.sort(until), at_ns, side="left")
        return np.asarray(self.working(at_ns) & (opened == closed))


def looks_of(data: StudyData, cell: Cell) -> CellLooks | None:
    """The looks in the boot of a cell; None where nothing was looked at, or it has no requests."""
    boots = {window.boot for window in cell.windows}
    telemetry = data.telemetry
    if telemetry is None or len(boots) != 1 or not len(cell.rows):
        return None
    (boot,) = boots
    low, high = np.searchsorted(telemetry.boot, [boot, boot + 1])
    if low == high:
        return None
    hosts = tuple(data.watched.get(boot, ()))
    names = {(host.host, device.device): device for host in hosts for device in host.devices}
    host, device = telemetry.host[low:high], telemetry.device[low:high]
    found = []
    for which in dict.fromkeys(zip(host.tolist(), device.tolist(), strict=True)):
        rows = np.flatnonzero((host == which[0]) & (device == which[1])) + low
        found.append(_looks(telemetry, rows, which, names.get(which)))
    if not any(one.serves for one in found if one.device != MACHINE):  # it ran already, or takes little
        found = [replace(one, serves=True) for one in found]
    return CellLooks(tuple(found), hosts, *_span(data.requests, cell))


def _span(requests: RequestColumns, cell: Cell) -> tuple[int, int, float, Ints, Ints, Ints]:
    rows = cell.rows
    sent, ended = requests.sent_ns[rows], requests.end_ns[rows]
    tokens = float(requests.output_tokens[rows].sum())
    return int(sent.min()), int(ended.max()), tokens, sent, requests.first_ns[rows], ended


def _looks(telemetry: object, rows: Ints, which: tuple[str, str], told: WatchedDevice | None) -> Looks:
    columns = {
        name: getattr(telemetry, name)[rows]
        for name in Looks.__dataclass_fields__
        if name not in ("host", "device", "name", "serves")
    }
    memory = columns["memory_used_bytes"]
    known = memory[np.isfinite(memory)]
    serves = not known.size or float(known.max()) - float(known[0]) >= TAKEN_BYTES
    return Looks(*which, told.name if told else "", serves, **columns)


def joules(looks: CellLooks) -> Reading:
    """Energy of the cell over all devices that serve, from its first send to its last answer: the integral of
    power by trapezoids. What they draw when idle is in it.
    """
    if not looks.devices:
        return Reading.absent(_no_devices(looks.hosts))
    total, number = 0.0, 0
    for device in looks.devices:
        told = np.isfinite(device.power_w)
        if not told.any():
            return Reading.absent(f"{device.label} does not tell its power")
        at, power = device.at_ns[told], device.power_w[told]
        inside = looks.inside(at)
        number = max(number, int(inside.sum()))
        seen = np.concatenate(([looks.start_ns], at[inside], [looks.end_ns]))
        if inside.sum() < FEWEST_LOOKS:
            span = (looks.end_ns - looks.start_ns) * NANO
            return Reading.absent(f"the cell's {span:.1f} s hold fewer than {FEWEST_LOOKS} looks")
        if np.diff(seen).max() * NANO > WIDEST_GAP_S:
            return Reading.absent(f"{device.label} was not looked at for seconds while the cell ran")
        drawn = np.interp(seen, at, power)
        total += float(((drawn[1:] + drawn[:-1]) / 2 * np.diff(seen) * NANO).sum())
    return Reading.of(total, "J", "device", note=_summed(looks.devices))


def per_token(looks: CellLooks | None) -> tuple[Reading, Reading]:
    """(joules a token, tokens a joule) over the cell's output tokens."""
    if looks is None:
        gone = Reading.absent("nothing was looked at while it ran")
        return gone, gone
    energy = joules(looks)
    if energy.value is None:
        return energy, energy
    if not np.isfinite(looks.tokens) or looks.tokens <= 0 or energy.value <= 0:
        gone = Reading.absent("the output tokens were not told" if energy.value > 0 else "no power was drawn")
        return gone, gone
    each = energy.value / looks.tokens
    note = f"{energy.note}; idle power not taken off"
    return (
        Reading.of(each, "J/token", "device", note=note),
        Reading.of(1 / each, "tokens/J", "device", note=note),
    )


def _summed(devices: Sequence[Looks]) -> str:
    hosts = len({device.host for device in devices})
    machines = f" of {hosts} machines" if hosts > 1 else ""
    return f"{len(devices)} GPU{'s' if len(devices) > 1 else ''}{machines} together"


def _no_devices(hosts: Sequence[WatchedHost]) -> str:
    why = dict.fromkeys(host.missing for host in hosts if host.missing)
    return f"no device told its power: {'; '.join(why)}" if why else "no device told its power"
