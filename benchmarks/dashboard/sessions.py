"""Many open pages: the rate of light reruns of one dashboard process, and its memory.

A session is the WebSocket of a browser window. It loads the overview once, then requests the
fragment that polls for changes, as every open page does. Each request follows the previous answer
at once.
"""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import numpy as np
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.asyncio.client import ClientConnection, connect
from websockets.typing import Origin, Subprotocol

from benchmarks.startup import BenchmarkError
from tests.support.pages.dashboard import serving

NUM_SESSIONS: Final = 20
_PATH: Final = "_stcore/stream"
# A first load on a busy machine takes long; beyond this the answer will not come.
_TIMEOUT_S: Final = 120.0
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def measure_sessions(store_url: str, *, seconds: float) -> dict[str, Any]:
    """Return the response times of NUM_SESSIONS sessions, polling without a pause for `seconds`."""
    with serving(store_url) as address:
        process_id = _child()
        return asyncio.run(_measured(address, process_id, seconds=seconds))


async def _measured(address: str, process_id: int, *, seconds: float) -> dict[str, Any]:
    server = f"ws://{urlsplit(address).netloc}/{_PATH}"
    sessions = [_Session() for _ in range(NUM_SESSIONS)]
    async with asyncio.timeout(_TIMEOUT_S + seconds):
        await asyncio.gather(*(session.open(server, origin=address) for session in sessions))
        started_s, cpu_s = time.monotonic(), _cpu_s(process_id)
        until_s = started_s + seconds
        await asyncio.gather(*(session.poll(until_s=until_s) for session in sessions))
        took_s, cpu_s = time.monotonic() - started_s, _cpu_s(process_id) - cpu_s
    waits_ms = [wait for session in sessions for wait in session.waits_ms]
    return {
        "num_sessions": NUM_SESSIONS,
        "num_reruns": len(waits_ms),
        "reruns_per_s": round(len(waits_ms) / took_s, 1),
        "cpu_ms_per_rerun": round(1000 * cpu_s / len(waits_ms), 2),
        "p50_ms": round(float(np.percentile(waits_ms, 50)), 1),
        "p95_ms": round(float(np.percentile(waits_ms, 95)), 1),
        "resident_bytes": _resident_bytes(process_id),
    }


class _Session:
    """A browser window, from the server's side."""

    def __init__(self) -> None:
        self.waits_ms: list[float] = []
        self._socket: ClientConnection | None = None
        self._fragment = ""
        self._page = ""

    async def open(self, server: str, *, origin: str) -> None:
        """Load the whole overview, and store the fragment that it draws again and again."""
        self._socket = await connect(
            server, origin=Origin(origin), subprotocols=[Subprotocol("streamlit")], max_size=None
        )
        request = BackMsg()
        request.rerun_script.query_string = ""
        await self._rerun(request)
        if not self._fragment:
            raise BenchmarkError("the overview draws no part of itself again")

    async def poll(self, *, until_s: float) -> None:
        """Draw the fragment again and again, and record the times."""
        request = BackMsg()
        request.rerun_script.fragment_id = self._fragment
        request.rerun_script.page_script_hash = self._page
        request.rerun_script.is_auto_rerun = True
        while (started_s := time.monotonic()) < until_s:
            await self._rerun(request)
            self.waits_ms.append(1000 * (time.monotonic() - started_s))

    async def _rerun(self, request: BackMsg) -> None:
        assert self._socket is not None
        await self._socket.send(request.SerializeToString())
        async for data in self._socket:
            assert isinstance(data, bytes)
            message = ForwardMsg.FromString(data)
            kind = message.WhichOneof("type")
            if kind == "new_session":
                self._page = message.new_session.page_script_hash
            elif kind == "auto_rerun":
                self._fragment = message.auto_rerun.fragment_id
            elif kind == "script_finished":
                return
        raise BenchmarkError("the dashboard closed the session")


def _child() -> int:
    (process_id,) = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return int(process_id)


def _cpu_s(process_id: int) -> float:
    fields = Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def _resident_bytes(process_id: int) -> int:
    pages = int(Path(f"/proc/{process_id}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
