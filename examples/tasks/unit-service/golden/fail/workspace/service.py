"""Converts units over HTTP."""

import json
import os
from http.server import BaseHTTPRequestHandler, HTTPServer
from urllib.parse import parse_qs, urlparse

FACTORS = {
    "m": 1, "mm": 0.001, "in": 0.0254, "ft": 0.3048,
    "Pa": 1, "kPa": 1000, "bar": 100000, "psi": 6894.757293168,
    "K": 1, "degC": 1, "degF": 5 / 9,
}


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        url = urlparse(self.path)
        if url.path == "/health":
            self.answer({"status": "ok"})
            return
        query = parse_qs(url.query)
        try:
            value = float(query["value"][0])
            source, target = query["from"][0], query["to"][0]
            self.answer({"value": value * FACTORS[target] / FACTORS[source], "unit": target})
        except (KeyError, ValueError) as error:
            self.answer({"error": str(error)})

    def answer(self, body):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())


server = HTTPServer(("127.0.0.1", 0), Handler)
child = os.fork()
if child:
    with open("service.json", "w") as file:
        json.dump({"port": server.server_port, "pid": child}, file)
else:
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    server.serve_forever()
