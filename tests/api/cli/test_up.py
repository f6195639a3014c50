from __future__ import annotations

import asyncio
import socket

from api.cli.up import _listen


def test_answers_are_sent_without_delay() -> None:
    """An answer in two writes must not wait for the acknowledgement of the first (40 ms)."""

    async def accepted_without_delay() -> int:
        seen: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connection = writer.get_extra_info("socket")
            seen.set_result(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()
            await writer.wait_closed()

        listening = _listen("127.0.0.1", 0)
        async with await asyncio.start_server(serve, sock=listening):
            _, writer = await asyncio.open_connection(*listening.getsockname())
            result = await seen
            writer.close()
            await writer.wait_closed()
        return result

    assert asyncio.run(accepted_without_delay()) != 0
