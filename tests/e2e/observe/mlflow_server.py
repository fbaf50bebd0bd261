"""A tracking server of a test: the calls of MLflow's REST API 2.0 about experiments
and runs, in memory. It is stricter than MLflow: fields that the API does not
document, wrong types and sizes above the documented limits are HTTP 400, and so is a
point that a run has already.

    server = TrackingServer()
    ... server.url, server.runs, server.calls ...
    server.close()
"""
import collections
import http.server
import json
import re
import threading
import urllib.parse
import uuid

PREFIX = "/api/2.0/mlflow/"
STATUSES = ("RUNNING", "SCHEDULED", "FINISHED", "FAILED", "KILLED")
FAULT = "TEMPORARILY_UNAVAILABLE"
# Names of metrics and params, which are paths in their normal form.
NAME = re.compile(r"[A-Za-z0-9_\-. ]+(/[A-Za-z0-9_\-. ]+)*")
TAG_FILTER = re.compile(r"tags\.`([^`]+)` = '([^']*)'")


class Refused(Exception):
    def __init__(self, http_status, code, message):
        super().__init__(message)
        self.http_status, self.code = http_status, code


def invalid(message):
    return Refused(400, "INVALID_PARAMETER_VALUE", message)


def text(most):
    def check(value):
        return isinstance(value, str) and len(value) <= most
    return check


def integer(value):
    return type(value) is int and 0 <= value < 2**63


def number(value):
    return type(value) in (int, float) or value in ("NaN", "Infinity", "-Infinity")


def name(value):
    return (isinstance(value, str) and 0 < len(value) <= 250
            and NAME.fullmatch(value) is not None
            and not {".", ".."} & set(value.split("/")))


def list_of(fields, most):
    def check(values):
        if not isinstance(values, list) or len(values) > most:
            return False
        for value in values:
            check_fields(value, fields, required=fields)
        return True
    return check


def texts(most):
    def check(values):
        return (isinstance(values, list) and 0 < len(values) <= most
                and all(isinstance(value, str) for value in values))
    return check


def check_fields(message, fields, required):
    """Refuses fields that are unknown, missing or of a wrong form."""
    if not isinstance(message, dict):
        raise invalid("not an object")
    for key, value in message.items():
        if key not in fields:
            raise invalid(f"unknown field {key}")
        if not fields[key](value):
            raise invalid(f"{key} is {str(value)[:100]!r}")
    for key in required:
        if key not in message:
            raise invalid(f"{key} is missing")


TAG = {"key": name, "value": text(5000)}
PARAM = {"key": name, "value": text(500)}
METRIC = {"key": name, "value": number, "timestamp": integer, "step": integer}

# Call -> method, fields, fields that must be there.
CALLS = {
    "experiments/get-by-name": ("GET", {"experiment_name": text(500)},
                                ["experiment_name"]),
    "experiments/create": ("POST", {"name": text(500)}, ["name"]),
    "runs/search": ("POST", {"experiment_ids": texts(1), "filter": text(1000),
                             "run_view_type": lambda v: v == "ACTIVE_ONLY",
                             "max_results": lambda v: integer(v) and v > 0,
                             "order_by": texts(1)}, ["experiment_ids", "filter"]),
    "runs/create": ("POST", {"experiment_id": text(20), "run_name": text(250),
                             "start_time": integer, "tags": list_of(TAG, 100)},
                    ["experiment_id"]),
    "runs/get": ("GET", {"run_id": text(32)}, ["run_id"]),
    "runs/log-batch": ("POST", {"run_id": text(32), "metrics": list_of(METRIC, 1000),
                                "params": list_of(PARAM, 100),
                                "tags": list_of(TAG, 100)}, ["run_id"]),
    "runs/update": ("POST", {"run_id": text(32), "status": lambda v: v in STATUSES,
                             "end_time": integer}, ["run_id"]),
}


class Run:
    def __init__(self, request):
        self.id = uuid.uuid4().hex
        self.experiment_id = request["experiment_id"]
        self.name = request.get("run_name", "")
        self.start_time = request.get("start_time", 0)
        self.end_time = None
        self.status = "RUNNING"
        self.tags = {tag["key"]: tag["value"] for tag in request.get("tags", [])}
        self.params = {}
        self.metrics = collections.defaultdict(list)  # key -> (step, time, value)

    def log(self, request):
        for param in request.get("params", []):
            if self.params.get(param["key"], param["value"]) != param["value"]:
                raise invalid(f"param {param['key']} has another value")
        new = [(m["key"], m["step"]) for m in request.get("metrics", [])]
        old = {(key, step) for key, points in self.metrics.items()
               for step, _, _ in points}
        if len(set(new)) < len(new) or old & set(new):
            raise invalid("a point is sent twice")
        self.params.update({p["key"]: p["value"] for p in request.get("params", [])})
        self.tags.update({t["key"]: t["value"] for t in request.get("tags", [])})
        for m in request.get("metrics", []):
            self.metrics[m["key"]].append((m["step"], m["timestamp"], m["value"]))

    def message(self):
        info = {"run_id": self.id, "run_uuid": self.id, "run_name": self.name,
                "experiment_id": self.experiment_id, "status": self.status,
                "start_time": self.start_time, "lifecycle_stage": "active"}
        if self.end_time is not None:
            info["end_time"] = self.end_time
        data = {}
        if self.metrics:
            data["metrics"] = [
                dict(zip(("step", "timestamp", "value"), max(points)), key=key)
                for key, points in self.metrics.items()]
        for field, entries in (("params", self.params), ("tags", self.tags)):
            if entries:
                data[field] = [{"key": k, "value": v} for k, v in entries.items()]
        return {"info": info, "data": data}


class TrackingServer:
    def __init__(self, authorization=None):
        self.authorization = authorization
        self.lock = threading.Lock()
        self.experiments = {"Default": "0"}
        self.runs = []
        self.calls = []     # (call, message) of all requests that were right
        self.refusals = []  # what was wrong with the others
        self.faults = collections.defaultdict(list)  # kind of call -> (status, has effect)
        tracking = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.answer("GET")

            def do_POST(self):
                self.answer("POST")

            def answer(self, method):
                length = int(self.headers.get("Content-Length", 0))
                status, message = tracking.answer(
                    method, self.path, self.headers, self.rfile.read(length))
                body = (message if isinstance(message, str)
                        else json.dumps(message)).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def fail_next(self, call, status, has_effect):
        """The next such call gets this HTTP status, whether or not it is carried out.
        A call with metrics is "runs/log-batch metrics"."""
        with self.lock:
            self.faults[call].append((status, has_effect))

    def count(self, call):
        with self.lock:
            return sum(1 for name, _ in self.calls if name == call)

    def points(self):
        """The number of points of all runs."""
        with self.lock:
            return sum(len(points) for run in self.runs for points in run.metrics.values())

    def answer(self, method, target, headers, body):
        with self.lock:
            try:
                return 200, self.carry_out(method, target, headers, body)
            except Refused as refused:
                if refused.code not in ("RESOURCE_DOES_NOT_EXIST", FAULT):
                    self.refusals.append(f"{target}: {refused}")
                return refused.http_status, {"error_code": refused.code,
                                             "message": str(refused)}

    def carry_out(self, method, target, headers, body):
        if self.authorization and headers.get("Authorization") != self.authorization:
            raise Refused(401, "UNAUTHENTICATED", "You are not authenticated")
        url = urllib.parse.urlsplit(target)
        call = url.path[len(PREFIX):] if url.path.startswith(PREFIX) else None
        if call not in CALLS:
            raise Refused(404, "ENDPOINT_NOT_FOUND", f"no such path: {url.path}")
        expected, fields, required = CALLS[call]
        if method != expected:
            raise Refused(405, "BAD_REQUEST", f"{call} is not a {method}")
        if method == "GET":
            message = dict(urllib.parse.parse_qsl(url.query, strict_parsing=True))
        else:
            if headers.get("Content-Type") != "application/json":
                raise invalid("the body is not application/json")
            if len(body) > 1 << 20:
                raise invalid("the body is larger than 1 MB")
            try:
                message = json.loads(body)
            except ValueError as error:
                raise invalid("the body is no JSON") from error
        check_fields(message, fields, required)
        kind = f"{call} metrics" if "metrics" in message else call
        fault = self.faults[kind].pop(0) if self.faults[kind] else None
        if fault and not fault[1]:
            raise Refused(fault[0], FAULT, "a fault of the test")
        self.calls.append((call, message))
        done = getattr(self, re.sub(r"\W", "_", call))(message)
        if fault:
            raise Refused(fault[0], FAULT, "a fault of the test")
        return done

    def experiments_get_by_name(self, message):
        found = self.experiments.get(message["experiment_name"])
        if found is None:
            raise Refused(404, "RESOURCE_DOES_NOT_EXIST", "no such experiment")
        return {"experiment": {"experiment_id": found, "lifecycle_stage": "active",
                               "name": message["experiment_name"]}}

    def experiments_create(self, message):
        if message["name"] in self.experiments:
            raise Refused(400, "RESOURCE_ALREADY_EXISTS", "the experiment exists")
        self.experiments[message["name"]] = str(len(self.experiments))
        return {"experiment_id": self.experiments[message["name"]]}

    def run(self, message):
        for run in self.runs:
            if run.id == message["run_id"]:
                return run
        raise Refused(404, "RESOURCE_DOES_NOT_EXIST", "no such run")

    def runs_search(self, message):
        wanted = {}
        for part in message["filter"].split(" and "):
            found = TAG_FILTER.fullmatch(part)
            if found is None:
                raise invalid(f"filter {part!r}")
            wanted[found[1]] = found[2]
        runs = [run.message() for run in self.runs
                if run.experiment_id in message["experiment_ids"]
                and wanted.items() <= run.tags.items()]
        return {"runs": runs[:message["max_results"]]} if runs else {}

    def runs_create(self, message):
        if message["experiment_id"] not in self.experiments.values():
            raise Refused(404, "RESOURCE_DOES_NOT_EXIST", "no such experiment")
        self.runs.append(Run(message))
        return {"run": self.runs[-1].message()}

    def runs_get(self, message):
        return {"run": self.run(message).message()}

    def runs_log_batch(self, message):
        sizes = [len(message.get(f, [])) for f in ("metrics", "params", "tags")]
        if sum(sizes) > 1000:
            raise invalid("more than 1000 entries")
        self.run(message).log(message)
        return {}

    def runs_update(self, message):
        run = self.run(message)
        run.status = message.get("status", run.status)
        run.end_time = message.get("end_time", run.end_time)
        return {"run_info": run.message()["info"]}
