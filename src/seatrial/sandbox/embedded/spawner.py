"""The spawner: one small single-threaded process that forks every sandbox and every command in it.

It never waits for a child: reports and exits arrive as events, so that many sandboxes can be built at the same time.
Being the first process of its own pid namespace, it takes every sandbox with it when it dies, however it dies. So no
request may end it: one that cannot be carried out is answered with the reason.
"""

import os
import select
import socket
from collections.abc import Callable
from typing import Any

from seatrial.sandbox.embedded import children
from seatrial.sandbox.embedded.boxes import Boxes
from seatrial.sandbox.embedded.commands import Commands
from seatrial.sandbox.embedded.filework import FileWork
from seatrial.sandbox.embedded.forks import Forks
from seatrial.sandbox.embedded.protocol import DescriptorsLostError, receive, send
from seatrial.sandbox.embedded.requests import Box, CommandRequest, Request, Target, Transfer, decode
from seatrial.sandbox.embedded.roots import SpawnerSettings, prepare_host_image, shift_host_image
from seatrial.sandbox.embedded.running import Reply, RunningSandbox
from seatrial.sandbox.embedded.views import Views

Operation = Callable[[dict[str, Any], list[int], Reply], None]


def takes(kind: type[Request], carry_out: Callable[[Request, list[int], Reply], None]) -> Operation:
    """An operation on requests of one type, with the descriptors that came beside them."""
    return lambda message, descriptors, reply: carry_out(decode(kind, message), descriptors, reply)


class Spawner:
    """Serves requests until the control connection ends."""

    def __init__(self, control: socket.socket, manner: SpawnerSettings) -> None:
        self._control = control
        self._manner = manner
        poll = select.poll()
        poll.register(control, select.POLLIN)
        self._forks = Forks(poll)
        self._files = FileWork(self._forks, manner.owner)
        self._boxes = Boxes(poll, self._forks, self._files, manner)
        self._operations = self._offered()

    def _offered(self) -> dict[str, Operation]:
        """Every operation by its name on the wire."""
        files, boxes = self._files, self._boxes
        views = Views(self._forks, files.remove, self._manner)
        commands = Commands(self._forks, views, boxes, self._manner, lambda ending: send(self._control, ending))
        return {
            "ping": takes(Target, lambda _, __, reply: reply({}, [])),
            "prepare": takes(Target, self._prepare),
            "check_shift": takes(Target, self._check_shift),
            "remove": takes(Target, lambda target, _, reply: files.remove(reply, target.path)),
            "create": takes(Box, boxes.create),
            "exec": takes(CommandRequest, commands.start),
            "listen": takes(Target, commands.listen),
            "kill": takes(Target, boxes.kill),
            "renew": takes(Target, lambda target, _, reply: boxes.renew(target.name, views.leave, reply)),
            "destroy": takes(Target, boxes.destroy),
            "put": self._transfers(files.put),
            "get": self._transfers(files.get),
            "copy": takes(
                Target,
                lambda target, passed, reply: views.copy(
                    boxes[target.name], passed[0], reply, still=target.system == "still"
                ),
            ),
            "view": takes(
                Target,
                lambda target, passed, reply: views.make(boxes[target.name], target.system, passed[0], reply),
            ),
            "processes": self._writes(files.list_processes),
            "changes": self._writes(files.tell_changes),
            "snapshot": self._writes(files.save_layer),
            "pack_layer": self._transfers(files.pack_layer),
            "stamps": self._writes(files.tell_stamps),
            "size": self._writes(files.tell_size),
        }

    def _transfers(self, move: Callable[[RunningSandbox, Transfer, int, Reply], None]) -> Operation:
        """An operation that moves files between a sandbox and an archive."""
        return takes(
            Transfer, lambda transfer, passed, reply: move(self._boxes[transfer.name], transfer, passed[0], reply)
        )

    def _writes(self, work: Callable[[RunningSandbox, int, Reply], None]) -> Operation:
        """An operation that writes what it finds in a sandbox to a descriptor."""
        return takes(Target, lambda target, passed, reply: work(self._boxes[target.name], passed[0], reply))

    def serve(self) -> None:
        """Handle events until the control connection ends, which ends everything."""
        control = self._control.fileno()
        while True:
            for descriptor, _ in self._forks.wait():
                if descriptor == control:
                    if not self._serve_request():
                        return
                elif not self._boxes.handle(descriptor):
                    self._forks.handle(descriptor)

    def _serve_request(self) -> bool:
        """Carry out the next request; False when the other side has closed the connection."""
        try:
            received = receive(self._control)
        except DescriptorsLostError as error:
            self._refuse(error.message, error)
            return True
        if received is None:
            return False
        self._handle(*received)
        return True

    def _handle(self, message: dict[str, Any], descriptors: list[int]) -> None:
        def reply(answer: dict[str, Any], passed: list[int]) -> None:
            send(self._control, {"id": message["id"], **answer}, passed)

        try:
            self._operations[message["op"]](message, descriptors, reply)
        except Exception as error:  # noqa: BLE001 - one request that fails must not end the sandboxes of all others
            self._refuse(message, error)
        # Children that work with these have copies of their own since they were forked.
        for descriptor in descriptors:
            os.close(descriptor)

    def _refuse(self, message: dict[str, Any], error: Exception) -> None:
        reason = {"error": str(error) or repr(error), "errno": getattr(error, "errno", None)}
        send(self._control, {"id": message["id"], **reason, "kind": type(error).__name__})

    def _prepare(self, _: Target, __: list[int], reply: Reply) -> None:
        shift, prepared = self._manner.shift, self._manner.prepared

        def ready(answer: dict[str, Any], passed: list[int]) -> None:
            if shift is not None and not answer and not self._manner.shifted:
                self._manner.shifted.update(shift_host_image(prepared, shift))
            reply(answer, passed)

        rootless = self._manner.rootless
        self._files.answer_after(lambda: prepare_host_image(prepared, rootless=rootless), ready)

    def _check_shift(self, target: Target, _: list[int], reply: Reply) -> None:
        shift = self._manner.shift or 0
        keep = [] if self._manner.shift is None else [self._manner.shift]
        self._files.answer_after(lambda: children.try_shift(target.path, shift), reply, keep)
