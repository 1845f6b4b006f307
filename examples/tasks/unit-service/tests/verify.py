import http.client
import json
import signal
import urllib.request
from typing import Any, NamedTuple

import verifier_kit as kit

OUTPUT = "/workspace/service.json"
MAX_BYTES = 65536
REQUEST_TIMEOUT_SEC = 1.5
TOTAL_TIMEOUT_SEC = 40

CONVERSIONS = [
    ("7.5", "m", "m", 7.5),
    ("25.4", "mm", "in", 1.0),
    ("-3.5", "ft", "m", -1.0668),
    ("1e3", "Pa", "kPa", 1.0),
    ("14.5", "psi", "bar", 0.999739807509),
    ("0.8", "bar", "psi", 11.6030190180),
    ("0", "degC", "degF", 32.0),
    ("-40", "degF", "degC", -40.0),
    ("300", "K", "degC", 26.85),
    ("451", "degF", "K", 505.927777778),
]
REFUSALS = [
    ("/convert", 400, "missing_parameter"),
    ("/convert?value=1&from=m", 400, "missing_parameter"),
    ("/convert?value=&from=m&to=ft", 400, "missing_parameter"),
    ("/convert?value=abc&from=m&to=ft", 400, "bad_value"),
    ("/convert?value=nan&from=m&to=ft", 400, "bad_value"),
    ("/convert?value=inf&from=furlong&to=ft", 400, "bad_value"),
    ("/convert?value=1&from=furlong&to=m", 400, "unknown_unit"),
    ("/convert?value=1&from=bar&to=PA", 400, "unknown_unit"),
    ("/convert?value=1&from=m&to=bar", 400, "incompatible_units"),
    ("/convert?value=1&from=K&to=psi", 400, "incompatible_units"),
    ("/status", 404, "not_found"),
]


class Answer(NamedTuple):
    status: int  # 0 when there was no answer
    body: Any  # None when it is not JSON
    shown: str


class AnyStatus(urllib.request.HTTPErrorProcessor):
    """Hands out every answer as it is: 400 raises nothing and 302 leads nowhere."""

    def http_response(self, request, response):
        return response


OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), AnyStatus)


def judge():
    service = kit.read_json(OUTPUT)
    kit.require_keys(service, ["port", "pid"])
    port = whole_number(service, "port", 65535)
    whole_number(service, "pid", 2**22)
    limit_total_time()
    health = ask(port, "/health")
    if not health.status:
        raise kit.OutputProblem("no_service", f"nothing answers on 127.0.0.1:{port}: {health.shown}")
    dimensions = [
        kit.check("health", health[:2] == (200, {"status": "ok"}), f"found {health.shown}"),
        kit.share("conversions", complaints(conversion, port, CONVERSIONS), len(CONVERSIONS), weight=4),
        kit.share("refusals", complaints(refusal, port, REFUSALS), len(REFUSALS), weight=3),
    ]
    signal.alarm(0)
    return dimensions


def whole_number(service, key, highest):
    value = service[key]
    if type(value) is not int or not 1 <= value <= highest:
        raise kit.OutputProblem("schema_mismatch", f"{key} is {value!r:.60}, expected a whole number up to {highest}")
    return value


def limit_total_time():
    """Timeouts hold for each read only; this also ends a service that sends byte by byte."""

    def give_up(*_):
        raise kit.OutputProblem("no_service", f"the service took more than {TOTAL_TIMEOUT_SEC} s for all requests")

    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(TOTAL_TIMEOUT_SEC)


def complaints(check, port, cases):
    return list(filter(None, (check(port, *case) for case in cases)))


def ask(port, target):
    try:
        with OPENER.open(f"http://127.0.0.1:{port}{target}", timeout=REQUEST_TIMEOUT_SEC) as response:
            status, text = response.status, response.read(MAX_BYTES)
    except (OSError, http.client.HTTPException) as error:
        return Answer(0, None, f"no answer: {error!r:.100}")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    return Answer(status, body, f"{status} {text!r:.100}")


def conversion(port, value, source, target, expected):
    """The evidence against one conversion, empty when it is right."""
    request = f"/convert?value={value}&from={source}&to={target}"
    answer = ask(port, request)
    body = answer.body if isinstance(answer.body, dict) else {}
    number = body.get("value")
    in_margin = kit.compare("value", number, expected, rel=1e-8).score == 1 and not isinstance(number, str)
    right = answer.status == 200 and in_margin and body.get("unit") == target
    return "" if right else f"{request}: found {answer.shown}, expected {expected:g} {target}"


def refusal(port, request, status, code):
    """The evidence against one refusal, empty when it is right."""
    answer = ask(port, request)
    right = answer[:2] == (status, {"error": code})
    return "" if right else f"{request}: found {answer.shown}, expected {status} {code}"


kit.run(judge)
