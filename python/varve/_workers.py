"""Worker processes that read samples. Each is asked for a sample over a socket and leaves it in memory that both see, so
that arrays are never pickled. The library's loader asks (python/src/source.cpp); order and bits are those of threads."""

from __future__ import annotations

import mmap
import multiprocessing
import os
import signal
import socket
import struct
import time
from typing import Any, List, Sequence, Tuple

from ._core import Error
from ._samples import Reader

_NUMBER = struct.Struct("=q")
_START_SECONDS = 120.0
_MOST_MESSAGE = 100_000


class _Handle:
    """A file descriptor on its way to another process."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def __reduce__(self) -> Any:
        from multiprocessing import reduction

        return _arrived, (reduction.DupFd(self.fd),)


def _arrived(handle: Any) -> _Handle:
    return _Handle(handle.detach())


def _receive(connection: socket.socket, count: int, parent: int = 0) -> bytes:
    """So many bytes; fewer when the other end is closed, or the parent process is gone."""
    data = b""
    while len(data) < count:
        try:
            part = connection.recv(count - len(data))
        except socket.timeout:
            if not parent:
                raise
            if os.getppid() == parent:
                continue
            break  # others that it forked may still hold the socket
        except ConnectionError:
            break
        if not part:
            break
        data += part
    return data


def _answer(connection: socket.socket, text: str) -> None:
    data = text.encode()[:_MOST_MESSAGE]
    connection.sendall(_NUMBER.pack(len(data)) + data)


def _serve(connection: _Handle, memory: _Handle, payload: Any, foreign: Sequence[int], parent: int) -> None:
    """The worker's side: until the other end of the socket is closed."""
    import pickle
    import traceback

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes of a terminal; the first one decides
    for fd in foreign:
        os.close(fd)
    with socket.socket(fileno=connection.fd) as asked:
        try:
            reader: Reader = pickle.loads(payload) if isinstance(payload, bytes) else payload
            import numpy
        except BaseException as error:
            _answer(asked, f"{type(error).__name__}: {error}")
            return
        place = mmap.mmap(memory.fd, 0)
        asked.sendall(_NUMBER.pack(0))
        asked.settimeout(5.0 if parent else None)
        while True:
            request = _receive(asked, _NUMBER.size, parent)
            if len(request) < _NUMBER.size:
                return
            index = _NUMBER.unpack(request)[0]
            try:
                at = 0
                for array in reader.read(index):
                    numpy.frombuffer(place, array.dtype, array.size, at)[:] = array.reshape(-1)
                    at += array.nbytes
                asked.sendall(_NUMBER.pack(0))
            except OSError as error:
                if isinstance(error, (BrokenPipeError, ConnectionResetError)):
                    return
                _answer(asked, _blame(index, error, traceback.format_exc()))
            except BaseException as error:
                _answer(asked, _blame(index, error, traceback.format_exc()))


def _blame(index: int, error: BaseException, trace: str) -> str:
    cause = error.__cause__ or error
    what = str(cause) if isinstance(cause, Error) else f"sample {index}: {type(cause).__name__}: {cause}"
    return f"{what if what.startswith('dataset') else 'dataset: ' + what}\n  In worker process {os.getpid()}:\n{trace}"


class Pool:
    """Processes that read one data set; they end when it does."""

    def __init__(self, reader: Reader, count: int, method: str) -> None:
        import pickle

        import numpy

        if count < 1 or count > 256:
            raise Error(f"processes: expected 1 to 256 of them, got {count}.")
        context = multiprocessing.get_context(method)
        payload: Any = reader
        if method != "fork":
            try:
                payload = pickle.dumps(reader)  # not as multiprocessing does: what it hands over can be taken once only
            except Exception as error:
                raise Error(
                    f"processes: the samples cannot be sent to another process ({type(error).__name__}: {error}). "
                    'Their class must be found by importing a module; processes="fork" needs no pickling.'
                ) from error
        size = sum(int(numpy.prod(shape)) * numpy.dtype(dtype).itemsize for shape, dtype in (reader.x, reader.y))
        self._sockets: List[socket.socket] = []
        self._places: List[mmap.mmap] = []
        self._processes: List[Any] = []
        try:
            for _ in range(count):
                self._start(context, method, payload, max(size, 1))
            for process, connection in zip(self._processes, self._sockets):
                self._wait_ready(process, connection)
        except BaseException:
            self.close()
            raise

    def _start(self, context: Any, method: str, payload: Any, size: int) -> None:
        ours, theirs = socket.socketpair()
        self._sockets.append(ours)
        memory = os.memfd_create("varve-samples")
        try:
            os.ftruncate(memory, size)
            self._places.append(mmap.mmap(memory, size))
            foreign = [each.fileno() for each in self._sockets] if method == "fork" else []
            handle = _Handle(os.dup(theirs.fileno()) if method == "fork" else theirs.fileno())
            parent = 0 if method == "forkserver" else os.getpid()
            arguments = (handle, _Handle(memory), payload, foreign, parent)
            process = context.Process(target=_serve, args=arguments, daemon=True, name="varve-worker")
            process.start()
            if method == "fork":
                os.close(handle.fd)
        finally:
            theirs.close()
            os.close(memory)
        self._processes.append(process)

    def _wait_ready(self, process: Any, connection: socket.socket) -> None:
        connection.settimeout(_START_SECONDS)
        try:
            status = _receive(connection, _NUMBER.size)
            if len(status) < _NUMBER.size:
                raise Error(
                    f"processes: worker process {process.pid} {self.how_ended(process.pid)} before it was ready. A script that "
                    'starts processes is imported by them: what it does itself belongs under if __name__ == "__main__".'
                )
            length = _NUMBER.unpack(status)[0]
            if length:
                text = _receive(connection, length).decode(errors="replace")
                raise Error(
                    f"processes: a worker process could not take the samples ({text}). Their class must be found by importing "
                    'a module: put it into a file of its own, or use processes="fork".'
                )
        except socket.timeout:
            raise Error(f"processes: worker process {process.pid} was not ready after {_START_SECONDS:.0f} seconds.") from None
        connection.settimeout(None)

    def started(self) -> List[Tuple[int, int, int]]:
        """Socket, address of the shared memory and process id of each."""
        import numpy

        addresses = [int(numpy.frombuffer(place, "uint8").ctypes.data) for place in self._places]
        return [(s.fileno(), address, p.pid) for s, address, p in zip(self._sockets, addresses, self._processes)]

    def how_ended(self, pid: int) -> str:
        for process in self._processes:
            if process.pid == pid:
                process.join(1.0)
                code = process.exitcode
                if code is None:
                    return "does not answer any more"
                return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"has ended with exit status {code}"
        return "has ended"

    def close(self) -> None:
        """Ends the processes: at once where they wait, after two seconds where they read."""
        for connection in self._sockets:
            try:
                connection.shutdown(socket.SHUT_RDWR)  # also where a forked process has it open
            except OSError:
                pass
            connection.close()
        until = time.monotonic() + 2
        for process in self._processes:
            process.join(max(0.0, until - time.monotonic()))
            if process.exitcode is None:
                process.kill()
                process.join()
        self._sockets, self._processes = [], []
