"""An HTTP service that converts units. Starting it returns once it listens; it then runs on by itself."""

import json
import math
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

# A value in the base unit of its kind is (value + offset) * factor.
UNITS = {
    "m": ("length", 0.0, 1.0),
    "mm": ("length", 0.0, 0.001),
    "in": ("length", 0.0, 0.0254),
    "ft": ("length", 0.0, 0.3048),
    "Pa": ("pressure", 0.0, 1.0),
    "kPa": ("pressure", 0.0, 1e3),
    "bar": ("pressure", 0.0, 1e5),
    "psi": ("pressure", 0.0, 6894.757293168),
    "K": ("temperature", 0.0, 1.0),
    "degC": ("temperature", 273.15, 1.0),
    "degF": ("temperature", 459.67, 5 / 9),
}


class Refusal(Exception):
    """A conversion that cannot be done; its text is the code of the answer."""


def convert(query):
    parameters = {name: values[0] for name, values in parse_qs(query).items()}
    if not {"value", "from", "to"} <= parameters.keys():
        raise Refusal("missing_parameter")
    value = finite_number(parameters["value"])
    if not {parameters["from"], parameters["to"]} <= UNITS.keys():
        raise Refusal("unknown_unit")
    kind, offset, factor = UNITS[parameters["from"]]
    to_kind, to_offset, to_factor = UNITS[parameters["to"]]
    if kind != to_kind:
        raise Refusal("incompatible_units")
    return {"value": (value + offset) * factor / to_factor - to_offset, "unit": parameters["to"]}


def finite_number(text):
    try:
        value = float(text)
    except ValueError:
        raise Refusal("bad_value") from None
    if not math.isfinite(value):
        raise Refusal("bad_value")
    return value


def respond(target):
    """The status and the answer to a GET of `target`."""
    address = urlsplit(target)
    if address.path == "/health":
        return 200, {"status": "ok"}
    if address.path != "/convert":
        return 404, {"error": "not_found"}
    try:
        return 200, convert(address.query)
    except Refusal as refusal:
        return 400, {"error": str(refusal)}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        status, answer = respond(self.path)
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def detach():
    """Leave the session and the output of the starter, so that neither can hold up the other."""
    os.setsid()
    log = os.open("service.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)


def main():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)  # requests queue up from here on
    child = os.fork()
    if child:
        Path("service.json").write_text(json.dumps({"port": server.server_port, "pid": child}) + "\n")
        return
    detach()
    server.serve_forever()


main()
